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
	host := resolvconf.Parse("nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch a.example b.example c.example\noptions timeout:1 edns0\n")
	config := &policy.DNSConfig{Nameservers: []string{"198.51.100.1"}, Searches: []string{"d.example"}, Options: []policy.Option{{Name: "ndots", Value: "2"}}}
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
}
