// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// BenchmarkDecide measures the engine. test/cluster compares it with the kubelet's code.
func BenchmarkDecide(b *testing.B) {
	host := resolvconf.Parse("nameserver 192.0.2.53\nnameserver 192.0.2.54\n" +
		"search a.example b.example c.example\noptions timeout:1 edns0\n")
	config := &policy.DNSConfig{Nameservers: []string{"198.51.100.1"}, Searches: []string{"d.example"},
		Options: []policy.Option{{Name: "ndots", Value: "2"}}}
	for name, pod := range map[string]policy.Pod{
		"ClusterFirst":           {Namespace: "shop", Name: "cart-0", Policy: policy.ClusterFirst},
		"ClusterFirst+dnsConfig": {Namespace: "shop", Name: "cart-0", Policy: policy.ClusterFirst, Config: config},
		"Default":                {Namespace: "shop", Name: "cart-0", Policy: policy.Default},
		"Autopath":               {Namespace: "shop", Name: "cart-0", Policy: policy.ClusterFirstWithAutopath},
	} {
		b.Run(name, func(b *testing.B) {
			e := newEngine(b, kubeadm)
			b.ReportAllocs()
			for b.Loop() {
				e.Decide(pod, host)
			}
		})
	}
	b.Run("64 rules", func(b *testing.B) {
		node := kubeadm
		for range policy.MaxNodeRules - 1 {
			node.Rules = append(node.Rules,
				policy.NodeRule{Namespaces: []string{"team-*"}, PodLabels: map[string]string{"app": "web"}, DropDuplicates: new(true)})
		}
		node.Rules = append(node.Rules, policy.NodeRule{Options: []string{"ndots:2"}, HostSearches: []string{"*.example"}})
		e, pod := newEngine(b, node), policy.Pod{Namespace: "shop", Name: "cart-0", Policy: policy.ClusterFirst}
		b.ReportAllocs()
		for b.Loop() {
			e.Decide(pod, host)
		}
	})
}
