// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var hostFile = resolvconf.Parse("nameserver 192.0.2.53\nsearch corp.example\noptions timeout:1 edns0\n")

// newEngine returns the engine of a node that edit changes.
func newEngine(t testing.TB, edit func(*policy.Node)) *policy.Engine {
	t.Helper()
	node := policy.Node{ClusterDNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, ClusterDomain: "cluster.local",
		ResolvConf: "/etc/resolv.conf"}
	edit(&node)
	return must.Get(policy.New(node))(t)
}

// newHook returns a hook for a kubeadm node that finds pods by their UID, and the reports
// that it makes.
func newHook(t testing.TB, pods ...policy.Pod) (*Hook, *[]Report) {
	t.Helper()
	var mu sync.Mutex
	reports := new([]Report)
	return &Hook{
		Engine:    newEngine(t, func(*policy.Node) {}),
		HostFiles: func() HostFiles { return HostFiles{hostFile, hostFile} },
		Lookup: func(_ context.Context, s Sandbox) (policy.Pod, error) {
			for _, p := range pods {
				if p.UID == s.UID {
					return p, nil
				}
			}
			return policy.Pod{}, fmt.Errorf("pod %s: %w", s.UID, ErrUnknownPod)
		},
		Report: func(r Report) {
			mu.Lock()
			defer mu.Unlock()
			*reports = append(*reports, r)
		},
	}, reports
}

// sandboxRequest returns the request of a kubelet that computed dns for pod.
func sandboxRequest(pod policy.Pod, dns *runtimeapi.DNSConfig) *runtimeapi.RunPodSandboxRequest {
	return &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: pod.UID},
		Hostname:    pod.Name,
		DnsConfig:   dns,
		Annotations: map[string]string{},
	}}
}

func dnsOf(servers, searches, options []string) *runtimeapi.DNSConfig {
	return &runtimeapi.DNSConfig{Servers: servers, Searches: searches, Options: options}
}

var (
	plain    = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst}
	autopath = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst, Override: policy.ClusterFirstWithAutopath}
	options  = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.Default}
	nothing  = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.None}
	injected = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst,
		Config: &policy.DNSConfig{Options: []policy.Option{{Name: "debug", Value: "1\nnameserver 203.0.113.66"}}}}
	fqdn = policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst, SetHostnameAsFQDN: true,
		Subdomain: "a-subdomain-that-is-long-enough-for-it"}

	shopSearch = []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"}
	kubeletDNS = dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:5"})
)

// withOptions returns plain with options, given as names and values.
func withOptions(pairs ...string) policy.Pod {
	pod := plain
	pod.Config = new(policy.DNSConfig)
	for i := 0; i < len(pairs); i += 2 {
		pod.Config.Options = append(pod.Config.Options, policy.Option{Name: pairs[i], Value: pairs[i+1]})
	}
	return pod
}

// hookTest is a request with what the kubelet computed, and the request that the runtime gets.
type hookTest struct {
	name string
	mode Mode
	pod  policy.Pod
	dns  *runtimeapi.DNSConfig // what the kubelet computed
	want *runtimeapi.DNSConfig // nil: the request as it came
	out  Outcome
}

// run edits the request with a hook that prepare changes.
func (tt hookTest) run(t *testing.T, prepare func(*Hook)) {
	t.Run(tt.name, func(t *testing.T) {
		h, reports := newHook(t, tt.pod)
		h.Mode = tt.mode
		prepare(h)
		reads, hostFiles := 0, h.HostFiles
		h.HostFiles = func() HostFiles { reads++; return hostFiles() }
		sent := sandboxRequest(plain, tt.dns)
		if tt.pod.HostNetwork {
			sent.Config.Hostname = ""
		}
		request := marshal(t, sent)
		got := edit(h, request)
		if tt.want == nil && !bytes.Equal(got, request) {
			t.Error("the request is changed")
		}
		if tt.want != nil {
			sent.Config.DnsConfig = tt.want
		}
		var r runtimeapi.RunPodSandboxRequest
		unmarshal(t, got, &r)
		if diff := cmp.Diff(sent, &r, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if reads > 1 {
			t.Errorf("%d reads of the host files for one request", reads)
		}
		if len(*reports) != 1 || (*reports)[0].Outcome != tt.out {
			t.Errorf("reports %+v, want one %q", *reports, tt.out)
		}
	})
}

// TestHook_Outcomes checks the outcome of a request. If want is nil, the request must be
// unchanged.
func TestHook_Outcomes(t *testing.T) {
	for _, tt := range []hookTest{
		{"the kubelet has decided the same", "", plain, kubeletDNS, nil, Unchanged},
		{"request without DNS", "", plain, nil, kubeletDNS, Edited},
		{"policy annotation", "", autopath, kubeletDNS,
			dnsOf([]string{"10.96.0.10"}, []string{"search.shop.cluster.local.ap.k8s.io"}, []string{"ndots:5"}), Edited},
		{"options in another order", "", options, dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"edns0", "timeout:1"}),
			dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"timeout:1", "edns0"}), Edited},
		{"unsafe value", "", injected,
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"debug:1\nnameserver 203.0.113.66", "ndots:5"}), kubeletDNS, Edited},

		{"unsafe value of an option of the base", "", withOptions("ndots", "2\nnameserver 203.0.113.66"),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:2\nnameserver 203.0.113.66"}), kubeletDNS, Edited},
		{"unsafe value after a safe one", "", withOptions("timeout", "1", "timeout", "2\nnameserver 203.0.113.66"),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"timeout:2\nnameserver 203.0.113.66", "ndots:5"}),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:5", "timeout:1"}), Edited},
		{"safe value after an unsafe one", "", withOptions("timeout", "2\nnameserver 203.0.113.66", "timeout", "1"),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"timeout:1", "ndots:5"}),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:5", "timeout:1"}), Edited},
		{"overridden option with a NUL", "", withOptions("ndots", "2\x00"),
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:2\x00"}), kubeletDNS, Edited},
		{"unsafe values that the pod does not have", "", plain,
			dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:5", "debug\n"}), nil, FactsMismatch},

		{"kubelet with another cluster DNS", "", plain, dnsOf([]string{"10.96.0.99"}, shopSearch, []string{"ndots:5"}), nil, FactsMismatch},
		{"kubelet with another cluster domain", "", autopath,
			dnsOf([]string{"10.96.0.10"}, []string{"shop.svc.other", "svc.other", "other", "corp.example"}, []string{"ndots:5"}),
			nil, FactsMismatch},
		{"kubelet with another host file", "", plain,
			dnsOf([]string{"10.96.0.10"}, shopSearch[:3], []string{"ndots:5"}), nil, FactsMismatch},
		{"Force ignores the kubelet", Force, plain, dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, nil), kubeletDNS, Edited},

		{"Observe changes nothing", Observe, autopath, kubeletDNS, nil, Observed},
		{"Observe adds no DNS", Observe, plain, nil, nil, Observed},
		{"Observe with empty DNS", Observe, plain, &runtimeapi.DNSConfig{}, nil, FactsMismatch},
		{"Observe reports a mismatch", Observe, plain, dnsOf([]string{"10.96.0.99"}, shopSearch, []string{"ndots:5"}), nil, FactsMismatch},

		{"empty decision", "", nothing, &runtimeapi.DNSConfig{}, nil, EmptyDecision},
		{"pod that cannot start", "", fqdn, kubeletDNS, nil, Refused},
		{"unknown pod", "", policy.Pod{UID: "u2"}, kubeletDNS, nil, UnknownPod},
	} {
		tt.run(t, func(*Hook) {})
	}
}

// TestHook_TwoHostFiles has a kubelet that reads the stub file of systemd-resolved, and a
// shim that reads the uplink file. The kubelet's DNS is compared with the decision for its
// own file, and pods get the decision for the other one.
func TestHook_TwoHostFiles(t *testing.T) {
	const stub, uplink = "nameserver 127.0.0.53\noptions edns0 trust-ad\n" +
		"search corp.example\n", "nameserver 192.0.2.53\nsearch corp.example lab.example\n"
	ofHost := policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.Default}
	stubDNS := dnsOf([]string{"127.0.0.53"}, []string{"corp.example"}, []string{"trust-ad", "edns0"})
	uplinkDNS := dnsOf([]string{"192.0.2.53"}, []string{"corp.example", "lab.example"}, nil)
	for _, tt := range []hookTest{
		{"Default gets the servers of the uplink", "", ofHost, stubDNS, uplinkDNS, Edited},
		{"ClusterFirst gets the domains of the uplink", "", plain, kubeletDNS,
			dnsOf([]string{"10.96.0.10"}, append(slices.Clip(shopSearch), "lab.example"), []string{"ndots:5"}), Edited},
		{"request without DNS", "", ofHost, nil, uplinkDNS, Edited},
		{"kubelet that reads the uplink", "", ofHost, uplinkDNS, nil, FactsMismatch},
		{"kubelet that reads a third file", "", ofHost, dnsOf([]string{"192.0.2.99"}, nil, nil), nil, FactsMismatch},
		{"Force compares nothing", Force, ofHost, dnsOf([]string{"192.0.2.99"}, nil, nil), uplinkDNS, Edited},
		{"Observe changes nothing", Observe, ofHost, stubDNS, nil, Observed},
	} {
		tt.run(t, func(h *Hook) {
			h.HostFiles = func() HostFiles { return HostFiles{Pods: resolvconf.Parse(uplink), Kubelet: resolvconf.Parse(stub)} }
		})
	}
	hookTest{name: "no uplink file yet", pod: ofHost, out: Unchanged,
		dns: dnsOf([]string{"127.0.0.53"}, []string{"corp.example"}, []string{"edns0", "trust-ad"})}.run(t, func(h *Hook) {
		h.HostFiles = func() HostFiles { return HostFiles{Pods: resolvconf.Parse(stub), Kubelet: resolvconf.Parse(stub)} }
	})
}

// TestHook_Overrides: a policy of the API in the annotation changes nothing, unless the node
// allows it. spec.dnsPolicy is immutable and the annotation is not.
func TestHook_Overrides(t *testing.T) {
	hostDNS := dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"timeout:1", "edns0"})
	noneDNS := dnsOf([]string{"192.0.2.99"}, nil, nil)
	own := &policy.DNSConfig{Nameservers: []string{"192.0.2.99"}}
	for _, tt := range []struct {
		policy, override policy.Policy
		config           *policy.DNSConfig
		dns, want        *runtimeapi.DNSConfig // of spec.dnsPolicy, and of the annotation
	}{
		{policy.ClusterFirst, policy.Default, nil, kubeletDNS, hostDNS},
		{policy.Default, policy.ClusterFirst, nil, hostDNS, kubeletDNS},
		{policy.Default, policy.ClusterFirstWithHostNet, nil, hostDNS, kubeletDNS},
		{policy.ClusterFirst, policy.None, own,
			dnsOf([]string{"10.96.0.10", "192.0.2.99"}, shopSearch, []string{"ndots:5"}), noneDNS},
	} {
		for _, allowed := range []bool{false, true} {
			test := hookTest{name: fmt.Sprintf("%s-%v", tt.override, allowed), dns: tt.dns, out: Unchanged,
				pod: policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: tt.policy, Override: tt.override, Config: tt.config}}
			if allowed {
				test.want, test.out = tt.want, Edited
			}
			test.run(t, func(h *Hook) {
				h.Engine = newEngine(t, func(n *policy.Node) {
					if allowed {
						n.AllowedOverrides = []policy.Policy{tt.override}
					}
				})
			})
		}
	}
}

func TestHook_SkipAnnotation(t *testing.T) {
	h, reports := newHook(t, autopath)
	sent := sandboxRequest(plain, kubeletDNS)
	sent.Config.Annotations[SkipAnnotation] = "true"
	request := marshal(t, sent)
	if got := edit(h, request); !bytes.Equal(got, request) || (*reports)[0].Outcome != Skipped {
		t.Errorf("reports %+v", *reports)
	}
}

// TestHook_Failures checks that every failure leaves the request unchanged and is reported
// with its reason.
func TestHook_Failures(t *testing.T) {
	request := marshal(t, sandboxRequest(plain, kubeletDNS))
	tests := []struct {
		name      string
		breakHook func(*Hook)
		request   []byte
		want      Outcome
	}{
		{"lookup panics", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) { panic("oh") }
		}, request, Panicked},
		{"host files panic", func(h *Hook) { h.HostFiles = func() HostFiles { panic("oh") } }, request, Panicked},
		{"no engine", func(h *Hook) { h.Engine = nil }, request, Panicked},
		{"API server times out", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) {
				return policy.Pod{}, fmt.Errorf("asking the API server: %w", context.DeadlineExceeded)
			}
		}, request, LookupTimeout},
		{"API server returns garbage", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) { return policy.Pod{}, errors.New("garbage") }
		}, request, LookupFailed},
		{"malformed request", func(*Hook) {}, []byte("\xff\xff"), MalformedRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, reports := newHook(t, autopath)
			m := NewMetrics(nil)
			tt.breakHook(h)
			if got, _, err := h.edit(t.Context(), tt.request, m); err != nil || !bytes.Equal(got, tt.request) {
				t.Error("the request is changed")
			}
			if len(*reports) != 1 || (*reports)[0].Outcome != tt.want || (*reports)[0].Detail == "" {
				t.Errorf("reports %+v, want one %q with a detail", *reports, tt.want)
			}
			if n := testutil.ToFloat64(m.sandboxes.WithLabelValues(string(tt.want))); n != 1 {
				t.Errorf("%v counted as %s, want 1", n, tt.want)
			}
		})
	}
}

// TestHook_CrossCheck has requests that agree in DNS, and differ from the pod in what the
// request says about its names and its network.
func TestHook_CrossCheck(t *testing.T) {
	ofHost := policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.Default, Subdomain: "s", SetHostnameAsFQDN: true}
	hostDNS := dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"edns0", "timeout:1"})
	nodeNetwork := &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}}}
	onHost := ofHost
	onHost.HostNetwork = true
	for _, tt := range []struct {
		name     string
		mode     Mode
		pod      policy.Pod
		hostname string
		linux    *runtimeapi.LinuxPodSandboxConfig
		want     Outcome
		detail   string
	}{
		{"equal", "", ofHost, "web.s.shop.svc.cluster.local", nil, Edited, ""},
		{"another cluster domain", "", ofHost, "web.s.shop.svc.other", nil, FactsMismatch,
			`hostname "web.s.shop.svc.other", expected "web.s.shop.svc.cluster.local"`},
		{"long host name", "", ofHost, strings.Repeat("a", 1<<20), nil, FactsMismatch, "(1048363 bytes left out)"},
		{"Force", Force, ofHost, "web.s.shop.svc.other", nil, Edited, ""},
		{"host's network", "", onHost, "", nodeNetwork, Edited, ""},
		{"host's network of the request only", "", ofHost, "", nodeNetwork, FactsMismatch, "host's network"},
		{"host's network of the pod only", "", onHost, "web", nil, FactsMismatch, `hostname "web", expected ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, reports := newHook(t, tt.pod)
			h.Mode = tt.mode
			sent := sandboxRequest(tt.pod, hostDNS)
			sent.Config.Hostname, sent.Config.Linux = tt.hostname, tt.linux
			h.edit(t.Context(), marshal(t, sent), NewMetrics(nil))
			if r := (*reports)[0]; r.Outcome != tt.want || !strings.Contains(r.Detail, tt.detail) || len(r.Detail) > excerpt.MaxMessage {
				t.Errorf("got %s, %.300q; want %s, %q", r.Outcome, r.Detail, tt.want, tt.detail)
			}
		})
	}
}

// TestHook_ReportPanics checks that a panic in Report is counted and changes nothing else.
func TestHook_ReportPanics(t *testing.T) {
	h, _ := newHook(t, plain)
	m := NewMetrics(nil)
	h.Report = func(Report) { panic("oh") }
	request := marshal(t, sandboxRequest(plain, nil))
	if edited, _, err := h.edit(t.Context(), request, m); err != nil || bytes.Equal(edited, request) {
		t.Error("the request is unchanged")
	}
	if n := testutil.ToFloat64(m.panics); n != 1 {
		t.Errorf("%v panics counted, want 1", n)
	}
}

// TestHook_NotUTF8 has text in Latin-1 in the host's file and in the pod. The runtime gets a
// request that decodes.
func TestHook_NotUTF8(t *testing.T) {
	const latin1 = "caf\xe9"
	pod := withOptions("debug", latin1, latin1, "")
	pod.Config.Searches = []string{latin1 + ".example", "b.example"}
	h, reports := newHook(t, pod)
	h.Mode = Force
	h.HostFiles = func() HostFiles {
		f := resolvconf.Parse("nameserver 192.0.2.53\nsearch " + latin1 + ".host.example a.example\n")
		return HostFiles{f, f}
	}
	var got runtimeapi.RunPodSandboxRequest
	unmarshal(t, edit(h, marshal(t, sandboxRequest(pod, kubeletDNS))), &got)
	want := dnsOf([]string{"10.96.0.10"}, append(slices.Clip(shopSearch[:3]), "a.example", "b.example"), []string{"ndots:5"})
	if diff := cmp.Diff(want, got.Config.DnsConfig, protocmp.Transform()); diff != "" || (*reports)[0].Outcome != Edited {
		t.Errorf("%s (-want +got):\n%s", (*reports)[0].Outcome, diff)
	}
}

// TestShim_ConcurrentSandboxes starts 500 pods at once: each gets its own DNS, and costs one
// lookup, one read of the host files and one report.
func TestShim_ConcurrentSandboxes(t *testing.T) {
	const pods = 500
	var all []policy.Pod
	for i := range pods {
		all = append(all, policy.Pod{Namespace: fmt.Sprintf("ns%d", i), Name: "p", UID: fmt.Sprint(i), Policy: policy.ClusterFirst})
	}
	h, reports := newHook(t, all...)
	var lookups, reads atomic.Int32
	lookup, hostFiles := h.Lookup, h.HostFiles
	h.Lookup = func(ctx context.Context, s Sandbox) (policy.Pod, error) { lookups.Add(1); return lookup(ctx, s) }
	h.HostFiles = func() HostFiles { reads.Add(1); return hostFiles() }
	n := newNode(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).RunPodSandbox(ctx, sandboxRequest(p, nil)); err != nil {
				t.Errorf("%s: %v", p.UID, err)
			}
		})
	}
	wg.Wait()
	for range pods {
		q := <-n.runtime.sandboxes
		if want := "ns" + q.Config.Metadata.Uid + ".svc.cluster.local"; q.Config.DnsConfig.GetSearches()[0] != want {
			t.Errorf("pod %s searches %q", q.Config.Metadata.Uid, q.Config.DnsConfig.Searches)
		}
	}
	if len(*reports) != pods || lookups.Load() != pods || reads.Load() != pods {
		t.Errorf("%d reports, %d lookups and %d reads of the host files for %d pods", len(*reports), lookups.Load(), reads.Load(), pods)
	}
}

// edit returns the request that h forwards.
func edit(h *Hook, request []byte) []byte {
	edited, _, _ := h.edit(context.Background(), request, NewMetrics(nil))
	return edited
}

// TestHook_FailUnknown: pods of the API that cannot be looked up fail, so that the kubelet tries
// again. Static pods and other outcomes pass.
func TestHook_FailUnknown(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		source string
		fail   bool
		want   Outcome
		failed bool
	}{
		{"unknown", ErrUnknownPod, "api", true, UnknownPod, true},
		{"late", context.DeadlineExceeded, "api", true, LookupTimeout, true},
		{"failed", errors.New("connection refused"), "api", true, LookupFailed, true},
		{"passthrough", ErrUnknownPod, "api", false, UnknownPod, false},
		{"static pod", ErrUnknownPod, "file", true, UnknownPod, false},
		{"static pod from a URL", ErrUnknownPod, "http", true, UnknownPod, false},
		{"no source", ErrUnknownPod, "", true, UnknownPod, false},
		{"bad configuration", ErrBadConfig, "api", true, BadConfig, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var reports []Report
			h := &Hook{
				Mode: Force, FailUnknown: tt.fail, Report: func(r Report) { reports = append(reports, r) },
				Lookup: func(context.Context, Sandbox) (policy.Pod, error) { return policy.Pod{}, tt.err },
			}
			request := sandboxRequest(autopath, kubeletDNS)
			request.Config.Annotations = map[string]string{configSource: tt.source}
			sent := marshal(t, request)
			got, _, err := h.edit(t.Context(), sent, NewMetrics(nil))
			if !bytes.Equal(got, sent) || (status.Code(err) == codes.Unavailable) != tt.failed ||
				err != nil && !strings.Contains(err.Error(), tt.err.Error()) {
				t.Errorf("error %v, want one: %v", err, tt.failed)
			}
			if r := reports[0]; len(reports) != 1 || r.Outcome != tt.want || r.Failed != tt.failed || r.Mode != Force {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}

// TestHook_NodeRules checks that the kubelet's DNS is compared without the node rules, and that
// the pod gets the result of the rules.
func TestHook_NodeRules(t *testing.T) {
	labeled := policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.ClusterFirst, Labels: map[string]string{"app": "web"}}
	hostNetwork := labeled
	hostNetwork.HostNetwork = true
	hostDNS := dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"timeout:1", "edns0"})
	changed := dnsOf([]string{"10.96.0.10"}, shopSearch[:3], []string{"ndots:2"})
	for _, tt := range []hookTest{
		{"the kubelet's DNS matches", Generate, labeled, kubeletDNS, changed, Edited},
		{"no rule matches", Generate, plain, kubeletDNS, nil, Unchanged},
		{"Observe", Observe, labeled, kubeletDNS, nil, Observed},
		{"Force", Force, labeled, hostDNS, changed, Edited},
		{"a kubelet with the result of the rules has other facts", Generate, labeled, changed, nil, FactsMismatch},
		{"another cluster DNS", Generate, labeled, dnsOf([]string{"10.96.0.99"}, shopSearch, []string{"ndots:5"}), nil, FactsMismatch},
		{"another host file", Generate, labeled, dnsOf([]string{"10.96.0.10"}, shopSearch[:3], []string{"ndots:5"}), nil, FactsMismatch},
		{"host network as cluster", Generate, hostNetwork, hostDNS, changed, Edited},
		{"host network, another host file", Generate, hostNetwork,
			dnsOf([]string{"192.0.2.54"}, []string{"corp.example"}, []string{"timeout:1", "edns0"}), nil, FactsMismatch},
	} {
		tt.run(t, func(h *Hook) {
			h.Engine = newEngine(t, func(n *policy.Node) {
				n.Rules = []policy.NodeRule{{PodLabels: map[string]string{"app": "web"}, Options: []string{"ndots:2"},
					HostSearches: []string{}, HostNetworkAsCluster: new(true)}}
			})
		})
	}
}

// TestHook_Addresses checks that the addresses of a sandbox select the nameservers.
func TestHook_Addresses(t *testing.T) {
	h, _ := newHook(t, plain)
	h.Engine = newEngine(t, func(n *policy.Node) {
		n.ClusterDNS = append(n.ClusterDNS, netip.MustParseAddr("fd00::a"))
		n.Rules = []policy.NodeRule{{ServerFamilies: policy.FamiliesOnly}}
	})
	s := Sandbox{Namespace: "shop", Name: "web", UID: "u1", Hostname: "web"}
	if got := h.Decide(t.Context(), s).DNS.Nameservers; !slices.Equal(got, []string{"10.96.0.10", "fd00::a"}) {
		t.Errorf("unknown addresses: %q", got)
	}
	s.IPs = []netip.Addr{netip.MustParseAddr("fd00:10:244::7")}
	if got := h.Decide(t.Context(), s).DNS.Nameservers; !slices.Equal(got, []string{"fd00::a"}) {
		t.Errorf("IPv6 only: %q", got)
	}
}
