// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
	c, err := NewClient("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
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
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	shim := newNodeAt(t, runtime, passHook()).shim.Listener.Addr().String() // without its runtime
	for path, want := range map[string]string{
		missing: "no such socket: start it",
		stale:   "no process serves it: start it",
		shim:    "container runtime at " + runtime + ": no such socket",
	} {
		c, err := NewClient("unix://" + path)
		if err != nil {
			t.Fatal(err)
		}
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
