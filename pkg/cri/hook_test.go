// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

var hostFile = resolvconf.Parse("nameserver 192.0.2.53\nsearch corp.example\noptions timeout:1 edns0\n")

// newHook returns a hook on a kubeadm node that knows pods by their UID, and what it
// has reported.
func newHook(t testing.TB, pods ...policy.Pod) (*Hook, *[]Report) {
	t.Helper()
	engine, err := policy.New(policy.Node{
		ClusterDNS:    []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain: "cluster.local",
		ResolvConf:    "/etc/resolv.conf",
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	reports := new([]Report)
	return &Hook{
		Engine:    engine,
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

// asked is the request of a kubelet that computed dns for pod.
func asked(pod policy.Pod, dns *runtimeapi.DNSConfig) *runtimeapi.RunPodSandboxRequest {
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
	kubelets   = dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"ndots:5"})
)

// TestHook shows what becomes of a request. A nil want is the request as it came.
func TestHook(t *testing.T) {
	tests := []struct {
		name string
		mode Mode
		pod  policy.Pod
		dns  *runtimeapi.DNSConfig // what the kubelet computed
		want *runtimeapi.DNSConfig
		out  Outcome
	}{
		{"the kubelet is right, there is nothing to do", "", plain, kubelets, nil, Unchanged},
		{"no DNS in the request", "", plain, nil, kubelets, Edited},
		{"the pod's annotation asks for another policy", "", autopath, kubelets, dnsOf([]string{"10.96.0.10"}, []string{"search.shop.cluster.local.ap.k8s.io"}, []string{"ndots:5"}), Edited},
		{"options in stable order", "", options, dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"edns0", "timeout:1"}),
			dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, []string{"timeout:1", "edns0"}), Edited},
		{"a value that would write a line is taken out", "", injected, dnsOf([]string{"10.96.0.10"}, shopSearch, []string{"debug:1\nnameserver 203.0.113.66", "ndots:5"}), kubelets, Edited},

		{"the kubelet knows another cluster DNS", "", plain, dnsOf([]string{"10.96.0.99"}, shopSearch, []string{"ndots:5"}), nil, FactsMismatch},
		{"another domain", "", autopath, dnsOf([]string{"10.96.0.10"}, []string{"shop.svc.other", "svc.other", "other", "corp.example"}, []string{"ndots:5"}), nil, FactsMismatch},
		{"another host file", "", plain, dnsOf([]string{"10.96.0.10"}, shopSearch[:3], []string{"ndots:5"}), nil, FactsMismatch},
		{"Force wins over the kubelet", Force, plain, dnsOf([]string{"192.0.2.53"}, []string{"corp.example"}, nil), kubelets, Edited},

		{"Observe only looks", Observe, autopath, kubelets, nil, Observed},
		{"what is absent stays absent", Observe, plain, nil, nil, Observed},
		{"what is empty stays empty", Observe, plain, &runtimeapi.DNSConfig{}, nil, FactsMismatch},
		{"and sees a mismatch", Observe, plain, dnsOf([]string{"10.96.0.99"}, shopSearch, []string{"ndots:5"}), nil, FactsMismatch},

		{"an empty answer is never written", "", nothing, &runtimeapi.DNSConfig{}, nil, EmptyDecision},
		{"a pod that cannot start passes", "", fqdn, kubelets, nil, Refused},
		{"a pod that nobody knows", "", policy.Pod{UID: "u2"}, kubelets, nil, UnknownPod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, reports := newHook(t, tt.pod)
			h.Mode = tt.mode
			sent := asked(plain, tt.dns)
			request := marshal(t, sent)
			got := h.edit(t.Context(), request)
			if tt.want == nil {
				if !bytes.Equal(got, request) {
					t.Error("the request was changed")
				}
			} else {
				sent.Config.DnsConfig = tt.want
				var r runtimeapi.RunPodSandboxRequest
				unmarshal(t, got, &r)
				if diff := cmp.Diff(sent, &r, protocmp.Transform()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if len(*reports) != 1 || (*reports)[0].Outcome != tt.out {
				t.Errorf("reports %+v, want one %q", *reports, tt.out)
			}
		})
	}
}

// TestHookWithAnotherHostFile has a kubelet that is told to read the stub of
// systemd-resolved, and a shim that follows it to the uplink: the kubelet is held to
// its own file, and pods get ours.
func TestHookWithAnotherHostFile(t *testing.T) {
	const stub, uplink = "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch corp.example\n", "nameserver 192.0.2.53\nsearch corp.example lab.example\n"
	ofHost := policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.Default}
	stubs := dnsOf([]string{"127.0.0.53"}, []string{"corp.example"}, []string{"trust-ad", "edns0"})
	uplinks := dnsOf([]string{"192.0.2.53"}, []string{"corp.example", "lab.example"}, nil)
	tests := []struct {
		name string
		mode Mode
		pod  policy.Pod
		host string                // ours
		dns  *runtimeapi.DNSConfig // what the kubelet computed
		want *runtimeapi.DNSConfig // nil: the request as it came
		out  Outcome
	}{
		{"Default gets the uplink's servers", "", ofHost, uplink, stubs, uplinks, Edited},
		{"ClusterFirst gets its domains", "", plain, uplink, kubelets, dnsOf([]string{"10.96.0.10"}, append(slices.Clip(shopSearch), "lab.example"), []string{"ndots:5"}), Edited},
		{"no DNS in the request", "", ofHost, uplink, nil, uplinks, Edited},
		{"a kubelet that reads the uplink is not the one we were told of", "", ofHost, uplink, uplinks, nil, FactsMismatch},
		{"nor is one with yet another file", "", ofHost, uplink, dnsOf([]string{"192.0.2.99"}, nil, nil), nil, FactsMismatch},
		{"Force asks nobody", Force, ofHost, uplink, dnsOf([]string{"192.0.2.99"}, nil, nil), uplinks, Edited},
		{"Observe only looks", Observe, ofHost, uplink, stubs, nil, Observed},
		{"as long as there is no uplink the stub counts", "", ofHost, stub, dnsOf([]string{"127.0.0.53"}, []string{"corp.example"}, []string{"edns0", "trust-ad"}), nil, Unchanged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, reports := newHook(t, tt.pod)
			h.Mode = tt.mode
			h.HostFiles = func() HostFiles { return HostFiles{Pods: resolvconf.Parse(tt.host), Kubelet: resolvconf.Parse(stub)} }
			sent := asked(tt.pod, tt.dns)
			request := marshal(t, sent)
			var got runtimeapi.RunPodSandboxRequest
			unmarshal(t, h.edit(t.Context(), request), &got)
			if tt.want != nil {
				sent.Config.DnsConfig = tt.want
			}
			if diff := cmp.Diff(sent, &got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(*reports) != 1 || (*reports)[0].Outcome != tt.out {
				t.Errorf("reports %+v, want one %q", *reports, tt.out)
			}
		})
	}
}

func TestHookSkips(t *testing.T) {
	h, reports := newHook(t, autopath)
	sent := asked(plain, kubelets)
	sent.Config.Annotations[SkipAnnotation] = "true"
	request := marshal(t, sent)
	if got := h.edit(t.Context(), request); !bytes.Equal(got, request) || (*reports)[0].Outcome != Skipped {
		t.Errorf("reports %+v", *reports)
	}
}

// Whatever goes wrong, the request passes as it came, and the reason is told.
func TestHookFailsSafe(t *testing.T) {
	request := marshal(t, asked(plain, kubelets))
	tests := []struct {
		name    string
		breakIt func(*Hook)
		request []byte
		want    Outcome
	}{
		{"the lookup panics", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) { panic("oh") }
		}, request, Panicked},
		{"the host file panics", func(h *Hook) { h.HostFiles = func() HostFiles { panic("oh") } }, request, Panicked},
		{"no engine", func(h *Hook) { h.Engine = nil }, request, Panicked},
		{"the API server is slow", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) {
				return policy.Pod{}, fmt.Errorf("asking the API server: %w", context.DeadlineExceeded)
			}
		}, request, LookupTimeout},
		{"the API server answers rubbish", func(h *Hook) {
			h.Lookup = func(context.Context, Sandbox) (policy.Pod, error) { return policy.Pod{}, fmt.Errorf("rubbish") }
		}, request, LookupFailed},
		{"no message", func(*Hook) {}, []byte("\xff\xff"), MalformedRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, reports := newHook(t, autopath)
			tt.breakIt(h)
			if got := h.edit(t.Context(), tt.request); !bytes.Equal(got, tt.request) {
				t.Error("the request was changed")
			}
			if len(*reports) != 1 || (*reports)[0].Outcome != tt.want || (*reports)[0].Detail == "" {
				t.Errorf("reports %+v, want one %q with a detail", *reports, tt.want)
			}
		})
	}
}

// TestSandboxThroughTheShim is the whole way: the runtime gets our DNS and all else
// as it was.
func TestSandboxThroughTheShim(t *testing.T) {
	h, _ := newHook(t, autopath)
	n := newNode(t, h)
	sent := request()
	sent.Config.Metadata.Uid = "u1"
	sent.Config.DnsConfig = kubelets
	if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).RunPodSandbox(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	sent.Config.DnsConfig = dnsOf([]string{"10.96.0.10"}, []string{"search.shop.cluster.local.ap.k8s.io"}, []string{"ndots:5"})
	if diff := cmp.Diff(sent, <-n.runtime.sandbox, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A panic costs an edit, not the shim: the runtime gets what the kubelet sent, it is
// counted, and the next pod has its DNS.
func TestPanicLeavesTheShimAlive(t *testing.T) {
	h, _ := newHook(t, autopath)
	h.Metrics = NewMetrics(prometheus.NewRegistry())
	known, broken := h.Lookup, true
	h.Lookup = func(ctx context.Context, s Sandbox) (policy.Pod, error) {
		if broken {
			broken = false
			panic("oh")
		}
		return known(ctx, s)
	}
	n := newNode(t, h)
	sent := asked(autopath, kubelets)
	for _, want := range []*runtimeapi.DNSConfig{kubelets, dnsOf([]string{"10.96.0.10"}, []string{"search.shop.cluster.local.ap.k8s.io"}, []string{"ndots:5"})} {
		if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).RunPodSandbox(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, (<-n.runtime.sandbox).Config.DnsConfig, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if count := testutil.ToFloat64(h.Metrics.sandboxes.WithLabelValues(string(Panicked))); count != 1 {
		t.Errorf("%v panics are counted", count)
	}
}

// TestShim_SetHook changes the settings of a shim that serves: the next request is answered
// under the new ones, one that is under way under the old.
func TestShim_SetHook(t *testing.T) {
	before, _ := newHook(t, autopath)
	asking, answer := make(chan bool), make(chan bool)
	known := before.Lookup
	before.Lookup = func(ctx context.Context, s Sandbox) (policy.Pod, error) {
		asking <- true
		<-answer
		return known(ctx, s)
	}
	shim := &Shim{}
	shim.SetHook(before)
	request := marshal(t, asked(autopath, kubelets))
	underWay := make(chan []byte)
	go func() { underWay <- shim.hook.Load().edit(t.Context(), request) }()
	<-asking
	after, reports := newHook(t, autopath)
	after.Mode = Observe
	shim.SetHook(after)
	if got := shim.hook.Load().edit(t.Context(), request); !bytes.Equal(got, request) || (*reports)[0].Outcome != Observed {
		t.Errorf("after the change: reports %+v", *reports)
	}
	answer <- true
	if bytes.Equal(<-underWay, request) {
		t.Error("the request that was under way passed as it came")
	}
}

// 500 pods start at once: each gets its own DNS, and each is looked up once.
func TestManySandboxesAtOnce(t *testing.T) {
	const pods = 500
	var all []policy.Pod
	for i := range pods {
		all = append(all, policy.Pod{Namespace: fmt.Sprintf("ns%d", i), Name: "p", UID: fmt.Sprint(i), Policy: policy.ClusterFirst})
	}
	h, reports := newHook(t, all...)
	n := newNode(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			if _, err := runtimeapi.NewRuntimeServiceClient(n.shimmed).RunPodSandbox(ctx, asked(p, nil)); err != nil {
				t.Errorf("%s: %v", p.UID, err)
			}
		})
	}
	wg.Wait()
	for range pods {
		q := <-n.runtime.sandbox
		if want := "ns" + q.Config.Metadata.Uid + ".svc.cluster.local"; q.Config.DnsConfig.GetSearches()[0] != want {
			t.Errorf("pod %s searches %q", q.Config.Metadata.Uid, q.Config.DnsConfig.Searches)
		}
	}
	if len(*reports) != pods {
		t.Errorf("%d reports", len(*reports))
	}
}
