// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"net/netip"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

func ExampleEngine_Decide() {
	engine, err := policy.New(policy.Node{
		ClusterDNS:    []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain: "cluster.local",
		ResolvConf:    "/etc/resolv.conf",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := resolvconf.Parse("nameserver 192.0.2.53\nsearch corp.example\n")
	pod := policy.Pod{
		Namespace: "shop",
		Name:      "cart-0",
		Policy:    policy.ClusterFirst,
		Config:    &policy.DNSConfig{Options: []policy.Option{{Name: "ndots", Value: "2"}}},
	}

	d := engine.Decide(pod, host)
	fmt.Print(d.Config())
	fmt.Println("hostname", d.Hostname)
	// Output:
	// nameserver 10.96.0.10
	// search shop.svc.cluster.local svc.cluster.local cluster.local corp.example
	// options ndots:2
	// hostname cart-0
}

// A pod that cannot start gets a Decision with the reason and a hint.
func ExampleDecision_Starts() {
	engine, err := policy.New(policy.Node{ClusterDomain: "cluster.local"})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := engine.Decide(policy.Pod{
		Namespace:         "payments",
		Name:              "web-7d9c5b8f6d-x2x7k",
		Policy:            policy.Default,
		Subdomain:         "web-frontend-europe",
		SetHostnameAsFQDN: true,
	}, resolvconf.File{})

	fmt.Println(d.Starts())
	for _, f := range d.Findings {
		if f.Severity == policy.SeverityError {
			fmt.Println(f.Code, "at", f.Field)
			fmt.Println(f.Hint)
		}
	}
	// Output:
	// false
	// fqdn-too-long at spec.setHostnameAsFQDN
	// shorten the host name, the subdomain or the namespace by 3, or drop setHostnameAsFQDN
}

// Explain shows the source and the rule of every entry, kept or dropped.
func ExampleDecision_Explain() {
	engine, err := policy.New(policy.Node{
		ClusterDNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ResolvConf: "/etc/resolv.conf",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := engine.Decide(policy.Pod{Name: "web", Policy: policy.ClusterFirst}, resolvconf.Parse("nameserver 192.0.2.53\nsearch a b\n"))
	fmt.Print(d.Explain())
	// Output:
	// base      P1 the policy uses the cluster's DNS
	// hostname  N3 the host name is the pod's name
	// kept
	//   P3 the cluster's DNS servers replace the host's
	//     nameserver  10.96.0.10  clusterDNS[0]
	//   P3 the host's search domains follow the cluster's
	//     search      a           /etc/resolv.conf:2
	//     search      b           /etc/resolv.conf:2
	//   P3 cluster policies set ndots:5
	//     options     ndots:5     built in
	//   hostname    web
	// dropped
	//   P3 cluster policies use only the search domains of the host
	//     nameserver  192.0.2.53  /etc/resolv.conf:1
}
