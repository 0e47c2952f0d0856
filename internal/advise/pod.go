// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// PodCounts are the queries of a pod at all servers, or of an address that no pod has.
type PodCounts struct {
	Pod     *corev1.Pod // nil: none has the address
	Address netip.Addr
	dnsserver.ClientCounts
}

// CountPods returns what each client of the servers sent, the one with most queries first. The servers, which are
// clients of each other, are left out.
func CountPods(sources []Source, pods []corev1.Pod) (list []PodCounts) {
	byAddress, servers := podsByAddress(pods), map[netip.Addr]bool{}
	for _, s := range sources {
		servers[s.Address] = true
	}
	found := map[netip.Addr]*PodCounts{}
	for _, s := range sources {
		for _, c := range s.Report.Clients {
			if servers[c.Address] {
				continue
			}
			if found[c.Address] == nil {
				found[c.Address] = &PodCounts{Pod: byAddress[c.Address], Address: c.Address}
			}
			found[c.Address].Add(c.ClientCounts)
		}
	}
	for _, c := range found {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b PodCounts) int {
		return cmp.Or(cmp.Compare(b.Queries, a.Queries), a.Address.Compare(b.Address))
	})
	return list
}

// NamesOf returns the names that a client asks for, the most frequent first; none unless the servers count them.
func NamesOf(sources []Source, client netip.Addr) []string {
	names := map[string]uint64{}
	for _, s := range sources {
		for _, n := range s.Report.Names {
			if n.Address == client {
				names[n.Name] += n.Queries - n.Error
			}
		}
	}
	return byCount(names)
}
