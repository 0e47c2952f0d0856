// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

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
			t.Run(fmt.Sprintf("%s-%v", tt.override, allowed), func(t *testing.T) {
				pod := policy.Pod{Namespace: "shop", Name: "web", UID: "u1",
					Policy: tt.policy, Override: tt.override, Config: tt.config}
				h, reports := newHook(t, pod)
				node := policy.Node{ClusterDNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
					ClusterDomain: "cluster.local", ResolvConf: "/etc/resolv.conf"}
				want, outcome := tt.dns, Unchanged
				if allowed {
					node.AllowedOverrides = []policy.Policy{tt.override}
					want, outcome = tt.want, Edited
				}
				var err error
				if h.Engine, err = policy.New(node); err != nil {
					t.Fatal(err)
				}
				sent := sandboxRequest(pod, tt.dns)
				var got runtimeapi.RunPodSandboxRequest
				unmarshal(t, edit(h, marshal(t, sent)), &got)
				if diff := cmp.Diff(want, got.Config.DnsConfig, protocmp.Transform()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(*reports) != 1 || (*reports)[0].Outcome != outcome {
					t.Errorf("reports %+v, want one %q", *reports, outcome)
				}
			})
		}
	}
}

// TestHook_HostFileChanges: the host's file changes between any two reads. The decision and the
// check of the kubelet's result are from one read, so that right servers are never replaced by
// those of another version of the file.
func TestHook_HostFileChanges(t *testing.T) {
	pod := policy.Pod{Namespace: "shop", Name: "web", UID: "u1", Policy: policy.Default}
	for _, kubelet := range []string{"192.0.2.1", "192.0.2.2"} {
		h, reports := newHook(t, pod)
		reads := 0
		h.HostFiles = func() HostFiles {
			reads++
			f := resolvconf.Parse(fmt.Sprintf("nameserver 192.0.2.%d\n", 1+reads%2))
			return HostFiles{Pods: f, Kubelet: f}
		}
		for range 4 {
			var got runtimeapi.RunPodSandboxRequest
			unmarshal(t, edit(h, marshal(t, sandboxRequest(pod, dnsOf([]string{kubelet}, nil, nil)))), &got)
			if s := got.Config.DnsConfig.Servers; len(s) != 1 || s[0] != kubelet {
				t.Errorf("the kubelet had %s, the runtime gets %q", kubelet, s)
			}
		}
		if reads != len(*reports) {
			t.Errorf("%d reads for %d requests", reads, len(*reports))
		}
	}
}
