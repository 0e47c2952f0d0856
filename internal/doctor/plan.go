// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The roles of a DNS server.
const (
	RoleService  = "service"  // an address of the DNS Service
	RoleEndpoint = "endpoint" // a ready pod of the cluster DNS
	RoleFlag     = "flag"     // given on the command line
)

const (
	maxServers   = 16 // queried; a cluster with more replicas has findings with these
	maxNewest    = 2  // Services whose names are queried, the newest: a stale server lacks them
	settledAfter = time.Minute
)

// Server is a DNS server to query.
type Server struct {
	UDP, TCP netip.AddrPort
	Role     string
}

// Query is a question to a DNS server.
type Query struct {
	Server   netip.AddrPort
	Role     string
	Protocol string // UDP or TCP
	Name     string // with a final dot
	Type     string // A or AAAA
}

// Servers returns the servers of the cluster DNS: the addresses of its Service and its ready
// endpoints.
func Servers(s *Snapshot) (servers []Server) {
	v := newView(s)
	if v.dns == nil {
		return nil
	}
	for _, text := range v.dns.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			at := netip.AddrPortFrom(a, dnsPort)
			servers = append(servers, Server{at, at, RoleService})
		}
	}
	for _, e := range v.endpoints {
		if e.ready && len(servers) < maxServers {
			servers = append(servers, Server{
				netip.AddrPortFrom(e.addr, uint16(cmp.Or(e.udp, dnsPort))),
				netip.AddrPortFrom(e.addr, uint16(cmp.Or(e.tcp, dnsPort))), RoleEndpoint,
			})
		}
	}
	return servers
}

// Plan returns the questions for servers: names of the cluster, over UDP and TCP, and one
// outside, external, with a final dot; "": none. now is the time of the snapshot.
func Plan(s *Snapshot, servers []Server, external string, now time.Time) (queries []Query) {
	v := newView(s)
	if !v.hasValidDomain() {
		return nil
	}
	api := "kubernetes.default.svc." + v.domain + "."
	newest := v.newest(now)
	for _, server := range servers {
		add := func(protocol, name, qtype string) {
			at := server.UDP
			if protocol == TCP {
				at = server.TCP
			}
			queries = append(queries, Query{at, server.Role, protocol, name, qtype})
		}
		add(UDP, api, "A")
		add(UDP, api, "AAAA")
		add(TCP, api, "A")
		for _, name := range newest {
			add(UDP, name, "A")
		}
		if external != "" {
			add(UDP, external, "A")
			add(UDP, external, "AAAA")
		}
	}
	return queries
}

// newest returns the names of the Services that were created last, except those that a server
// may not have yet.
func (v *view) newest(now time.Time) (names []string) {
	var list []*corev1.Service
	for i := range v.Services {
		s := &v.Services[i]
		a, err := netip.ParseAddr(s.Spec.ClusterIP)
		if err == nil && a.Is4() && now.Sub(s.CreationTimestamp.Time) > settledAfter && s.Namespace+"/"+s.Name != "default/kubernetes" {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	for _, s := range list[:min(len(list), maxNewest)] {
		names = append(names, v.serviceDomain(s)+".")
	}
	return names
}
