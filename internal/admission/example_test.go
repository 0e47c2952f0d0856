// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// A pod that would stay pending forever is denied when it is applied. The reason has the
// length of the FQDN, the limit and a remedy.
func Example() {
	rules, err := admission.New(policy.Node{
		ClusterDNS:    []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		ClusterDomain: "cluster.local",
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := admission.Object{Kind: admission.KindPod, Name: "checkout-worker-0", Pod: policy.Pod{
		Namespace: "payments-production", Name: "checkout-worker-0", Policy: policy.ClusterFirst,
		Subdomain: "checkout-workers", SetHostnameAsFQDN: true,
	}}
	findings, err := rules.Check(context.Background(), pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(admission.NewVerdict(pod, findings).Denied)

	// For an object that creates pods there is a warning.
	set := pod
	set.Kind, set.Ordinal, set.Pod.Path = "StatefulSet", true, "spec.template."
	findings, _ = rules.Check(context.Background(), set)
	verdict := admission.NewVerdict(set, findings)
	fmt.Printf("%q %d\n", verdict.Denied, len(verdict.Warnings))
	// Output:
	// spec.setHostnameAsFQDN: FQDN checkout-worker-0.checkout-workers.payments-production.svc.cluster.local would be 72 characters, 64 is the limit; shorten the name or the subdomain or the namespace by 8, or drop setHostnameAsFQDN
	// "" 1
}
