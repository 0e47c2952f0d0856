// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fillSearches gives c a search list of 2047, 2048 or 2049 bytes, in the pod's dnsConfig
// or in the host file, after the domains of its base.
func (g generator) fillSearches(c *Case) {
	if c.Manifest || c.ResolvConfMode == MissingMode {
		return
	}
	length, count := 0, 0
	if c.Base() == ClusterBase && c.ClusterDomain != "" {
		svc := "svc." + c.ClusterDomain
		length, count = len(c.Pod.Namespace+"."+svc+" "+svc+" "+c.ClusterDomain+" "), 3
	} else if c.Base() == HostBase && c.ResolvConfMode == DisabledMode {
		length, count = len(". "), 1
	}
	domains := g.listOf(2047+g.IntN(3)-length, 32-count)
	c.HostResolvConf = ""
	if c.ResolvConfMode == FileMode && g.chance(0.5) {
		c.HostResolvConf = "search " + strings.Join(domains, " ") + "\n"
		return
	}
	if c.Pod.Spec.DNSConfig == nil {
		c.Pod.Spec.DNSConfig = new(corev1.PodDNSConfig)
	}
	c.Pod.Spec.DNSConfig.Searches = domains
}

// listOf returns at most limit domains of n bytes in total, with the blanks between them.
func (g generator) listOf(n, limit int) []string {
	var domains []string
	for n > 0 {
		l := min(n, 253)
		if len(domains) < limit-12 { // the rest in long ones, so that the count fits
			l = min(l, 64+g.IntN(190))
		}
		if n-l == 1 { // no room for a blank and a domain
			l--
		}
		domains = append(domains, g.domain(l))
		n -= l + 1
	}
	return domains
}
