// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func (r *fakeRuntime) ListPodSandbox(_ context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if s := q.GetFilter().GetState(); s == nil || s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		return nil, status.Error(codes.InvalidArgument, "want the sandboxes that are ready")
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
		{Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u", Namespace: "shop", Attempt: 2}},
		{Id: "b"},
	}}, nil
}

func (r *fakeRuntime) PodSandboxStatus(_ context.Context,
	q *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	if q.PodSandboxId == "b" || !q.Verbose {
		return &runtimeapi.PodSandboxStatusResponse{Info: map[string]string{"info": "not JSON"}}, nil
	}
	return &runtimeapi.PodSandboxStatusResponse{
		Status: &runtimeapi.PodSandboxStatus{
			Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u", Namespace: "shop"},
			Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.7", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::7"}, {Ip: "x"}}},
			Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
				Options: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			}},
			Annotations: map[string]string{"x": "y"},
		},
		Info: map[string]string{"other": "{}", "info": `{"pid": 7, "runtimeSpec": {"mounts": [
			{"destination": "/dev/shm", "source": "/shm"}, {"destination": "/etc/resolv.conf", "source": "/sandboxes/a/resolv.conf"}]}}`},
	}, nil
}

// TestClient reads the sandboxes of a runtime that uses the generated types.
func TestClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.sock")
	serveRuntime(t, path, newFakeRuntime())
	c := must.Get(NewClient("unix://" + path))(t)
	defer c.Close()
	list, err := c.ReadySandboxes(t.Context())
	if diff := cmp.Diff([]string{"a", "b"}, list); err != nil || diff != "" {
		t.Errorf("%v, sandboxes (-want +got):\n%s", err, diff)
	}
	s, file, err := c.SandboxStatus(t.Context(), "a")
	want := Sandbox{
		Namespace: "shop", Name: "web", UID: "u", HostNetwork: true, Annotations: map[string]string{"x": "y"},
		IPs: []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")},
	}
	if diff := cmp.Diff(want, s, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" || file != "/sandboxes/a/resolv.conf" {
		t.Errorf("%v, file %q, sandbox (-want +got):\n%s", err, file, diff)
	}
	if _, file, err := c.SandboxStatus(t.Context(), "b"); err != nil || file != "" {
		t.Errorf("%v, file %q of a runtime that does not report it", err, file)
	}
}

// TestClient_Errors: the errors of real connections name the socket, the reason and what to do, in one
// line without the words of gRPC.
func TestClient_Errors(t *testing.T) {
	dir := t.TempDir()
	missing, stale, runtime := filepath.Join(dir, "missing.sock"), filepath.Join(dir, "stale.sock"), filepath.Join(dir, "runtime.sock")
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: stale}))(t)
	l.SetUnlinkOnClose(false)
	l.Close()
	shim := newNodeAt(t, runtime, passHook()).shim.Listener.Addr().String() // without its runtime
	for path, want := range map[string]string{
		missing: "no such socket: start it",
		stale:   "no process serves it: start it",
		shim:    "container runtime at " + runtime + ": no such socket",
	} {
		c := must.Get(NewClient("unix://" + path))(t)
		defer c.Close()
		want = "container runtime at " + path + ": " + want
		if _, err := c.ReadySandboxes(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	want := "shim at " + shim + ": container runtime at " + runtime + ": no such socket"
	if err := Compare(t.Context(), "unix://"+shim, "unix://"+runtime); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestDescribeCall: what gRPC and a server write, and what remains of it.
func TestDescribeCall(t *testing.T) {
	const path = "/run/shim.sock"
	for _, tt := range []struct {
		code       codes.Code
		text, want string
	}{
		{codes.DeadlineExceeded, `latest balancer error: connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: no such file or directory"`, "no such socket: start it"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: permission denied"`, "permission denied: run this command as root"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/containerd.sock: connect: permission denied"`, "container runtime at /run/containerd.sock: permission denied"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: connect: resource temporarily unavailable"`, "resource temporarily unavailable"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: ` +
			`dial unix /run/shim.sock: socket: too many open files"`, "dial unix /run/shim.sock: socket: too many open files"},
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: a and b are the same socket"`,
			"a and b are the same socket"},
		{codes.DeadlineExceeded, "context deadline exceeded while waiting for connections to become ready", "no reply in time"},
		{codes.DeadlineExceeded, "context deadline exceeded", "no reply in time"},
		{codes.DeadlineExceeded, "stopping c1: context deadline exceeded", "stopping c1: context deadline exceeded"},
		{codes.Unavailable, "connection error: desc = \"cut", "connection error: desc = \"cut"},
		{codes.Unimplemented, "unknown service runtime.v1.RuntimeService", "unknown service runtime.v1.RuntimeService"},
		{codes.NotFound, "", "NotFound"},
	} {
		if got := describeCall(path, status.New(tt.code, tt.text)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestMetrics_Series(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	m.countCall("/runtime.v1.RuntimeService/Version", nil)
	m.countCall("/runtime.v1.ImageService/PullImage", status.Error(codes.NotFound, "no"))
	m.countCall("/runtime.v1.RuntimeService/FromTheFuture", nil)
	m.countCall("/invented.Service/Version", errors.New("no status"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(codes.Unauthenticated, "no"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(codes.Unauthenticated+1, "no"))
	m.countCall("/runtime.v1.RuntimeService/Status", status.Error(4711, "no"))
	const want = `
# HELP dnsconfigurer_cri_requests_total Calls forwarded to the container runtime, by method and gRPC code.
# TYPE dnsconfigurer_cri_requests_total counter
dnsconfigurer_cri_requests_total{code="NotFound",method="PullImage"} 1
dnsconfigurer_cri_requests_total{code="OK",method="Version"} 1
dnsconfigurer_cri_requests_total{code="OK",method="other"} 1
dnsconfigurer_cri_requests_total{code="Unauthenticated",method="Status"} 1
dnsconfigurer_cri_requests_total{code="Unknown",method="other"} 1
dnsconfigurer_cri_requests_total{code="other",method="Status"} 2
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "dnsconfigurer_cri_requests_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.sandboxes); n != len(outcomes) {
		t.Errorf("%d outcomes have a series at the start, want all %d", n, len(outcomes))
	}
	if lint, err := testutil.GatherAndLint(r); err != nil || len(lint) > 0 {
		t.Errorf("%v %v", lint, err)
	}
}

var newDNS = resolvconf.Config{Nameservers: []string{"10.96.0.10"}, Searches: []string{"a.example", "b"}, Options: []string{"ndots:5"}}

// fullRequest returns a request with every field that is read, and some others.
func fullRequest() *runtimeapi.RunPodSandboxRequest {
	return &runtimeapi.RunPodSandboxRequest{
		RuntimeHandler: "runc",
		Config: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Uid: "u1", Namespace: "shop", Attempt: 3},
			Hostname:     "web",
			LogDirectory: "/var/log/pods/shop_web_u1",
			DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"192.0.2.1"}, Searches: []string{"x"}, Options: []string{"ndots:5"}},
			Labels:       map[string]string{"io.kubernetes.pod.uid": "u1"},
			Annotations:  map[string]string{"kubernetes.io/config.source": "api", "a": ""},
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				CgroupParent: "/kubepods",
				SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}},
			},
		},
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	return must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(m))(t)
}

func TestParseSandbox_Malformed(t *testing.T) {
	whole := marshal(t, fullRequest())
	for name, b := range map[string][]byte{
		"truncated":              whole[:len(whole)-1],
		"garbage":                []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"config is a varint":     protowire.AppendVarint(protowire.AppendTag(nil, requestConfig, protowire.VarintType), 1),
		"dns_config is a varint": inConfig(protowire.AppendVarint(protowire.AppendTag(nil, configDNS, protowire.VarintType), 1)),
		"unterminated group":     inConfig(protowire.AppendTag(nil, 99, protowire.StartGroupType)),
	} {
		if s, err := parseSandbox(b); err == nil {
			t.Errorf("%s: parsed as %+v", name, s)
		}
	}
}

func inConfig(b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, requestConfig, protowire.BytesType), b)
}

func text(number protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), s)
}

// TestSetDNS_UnknownFields checks that unknown fields stay at every level, byte for byte and
// in order, and text that is not UTF-8 too.
func TestSetDNS_UnknownFields(t *testing.T) {
	unknown := func(s string) []byte { return text(1000, s) }
	label := text(configLabels, string(append(text(mapKey, "l"), text(mapValue, "\xff\xfe")...)))
	dns := text(configDNS, string(append(unknown("in dns"), text(dnsServers, "192.0.2.1")...)))
	in := bytes.Join([][]byte{unknown("first"),
		inConfig(bytes.Join([][]byte{unknown("in config"), label, dns, unknown("last in config")}, nil)), unknown("last")}, nil)
	want := bytes.Join([][]byte{
		unknown("first"),
		inConfig(bytes.Join([][]byte{unknown("in config"), label, unknown("last in config"),
			text(configDNS, string(appendDNS(unknown("in dns"), newDNS)))}, nil)),
		unknown("last"),
	}, nil)
	if got, err := setDNS(in, newDNS); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

// typedSandbox returns the fields of c that a hook uses.
func typedSandbox(c *runtimeapi.PodSandboxConfig) Sandbox {
	m, dns := c.GetMetadata(), c.GetDnsConfig()
	return Sandbox{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Hostname: c.GetHostname(), Annotations: c.GetAnnotations(),
		HostNetwork: c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		DNS:         resolvconf.Config{Nameservers: dns.GetServers(), Searches: dns.GetSearches(), Options: dns.GetOptions()},
		HasDNS:      dns != nil,
	}
}

// FuzzSetDNS compares parseSandbox and setDNS with the typed decoder on every message that
// the decoder accepts. A reader merges the parts of a message: old servers must not come back.
func FuzzSetDNS(f *testing.F) {
	withDNS := func(dns *runtimeapi.DNSConfig) []byte {
		r := fullRequest()
		r.Config.DnsConfig, r.Config.Linux = dns, nil
		return marshal(f, r)
	}
	f.Add(marshal(f, fullRequest()), "debug")
	f.Add(withDNS(nil), "debug")
	f.Add(withDNS(&runtimeapi.DNSConfig{}), "debug")
	f.Add(append(marshal(f, fullRequest()), inConfig(text(configDNS, string(text(dnsServers, "203.0.113.66"))))...), "caf\u00e9")
	f.Add([]byte{}, "caf\xe9")
	f.Fuzz(func(t *testing.T, in []byte, option string) {
		newDNS := newDNS
		newDNS.Options = []string{option}
		unchanged := bytes.Clone(in)
		out, err := setDNS(in, newDNS)
		if !bytes.Equal(unchanged, in) || !utf8.ValidString(option) && err == nil {
			t.Error("the request was changed in place, or text that is not UTF-8 is written")
		}
		var typed, after runtimeapi.RunPodSandboxRequest
		if err != nil || proto.Unmarshal(in, &typed) != nil {
			return // invalid UTF-8, fields of another type
		}
		s, err := parseSandbox(in)
		if err != nil {
			return // a field that is read has another wire type
		}
		if diff := cmp.Diff(typedSandbox(typed.GetConfig()), s, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("parsed (-typed +got):\n%s", diff)
		}
		if err := proto.Unmarshal(out, &after); err != nil {
			t.Fatalf("the result does not decode: %v", err)
		}
		if typed.Config == nil {
			typed.Config = &runtimeapi.PodSandboxConfig{}
		}
		unknown := typed.Config.GetDnsConfig().ProtoReflect().GetUnknown()
		typed.Config.DnsConfig = dnsOf(newDNS.Nameservers, newDNS.Searches, newDNS.Options)
		typed.Config.DnsConfig.ProtoReflect().SetUnknown(unknown)
		if diff := cmp.Diff(&typed, &after, protocmp.Transform()); diff != "" {
			t.Errorf("the result (-typed +got):\n%s", diff)
		}
	})
}

func unmarshal(t testing.TB, b []byte, m proto.Message) {
	t.Helper()
	must.Succeed(t, proto.Unmarshal(b, m))
}
