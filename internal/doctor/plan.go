// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// The roles of a DNS server.
const (
	RoleService   = "service"   // an address of the DNS Service
	RoleNodeCache = "nodecache" // a link-local address of node caches, which only pods and nodes reach
	RoleEndpoint  = "endpoint"  // a ready pod of the cluster DNS
	RoleFlag      = "flag"      // given on the command line
)

// The means by which a DNS server is queried.
const (
	MeansNetwork   = "network"             // this machine sends the query to the server
	MeansContainer = "ephemeral-container" // a container in the pod of the scope sends it to the server
)

// MaxServers is the largest number of servers that are queried. A cluster with more replicas has its
// findings with these.
const MaxServers = 16

// MaxContainerQueries is the largest number of queries of a container: its arguments stay in the pod.
const MaxContainerQueries = MaxServers * (5 + maxNewest)

const (
	maxNewest    = 2 // Services whose names are queried, the newest: a stale server lacks them
	settledAfter = time.Minute

	// The further queries to a server, each sent once. With the others, 20 over UDP miss a loss of 20 % in 0.5 % of
	// the runs.
	lossUDP, lossTCP = 20, 3
	lossInterval     = 50 * time.Millisecond
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
	Means    string
	Protocol string // UDP or TCP
	Name     string // with a final dot
	Type     string // A or AAAA

	// Delay is the time until the query is sent, once. 0: at once, and again if there is no reply.
	Delay time.Duration
}

// Servers returns the servers of the cluster DNS that a means reaches: the addresses of its Service and its ready
// endpoints, and for a pod the node cache that its node gives it.
func Servers(s *Snapshot, means string) (servers []Server) {
	v := newView(s)
	if v.dns == nil {
		return nil
	}
	add := func(a netip.Addr, role string) {
		at := netip.AddrPortFrom(a, dnsPort)
		servers = append(servers, Server{at, at, role})
	}
	for _, a := range v.addrs {
		add(a, RoleService)
	}
	for _, a := range v.clusterDNS[:min(len(v.clusterDNS), policy.MaxNameservers)] {
		if means == MeansContainer && a.IsLinkLocalUnicast() {
			add(a, RoleNodeCache)
		}
	}
	for _, e := range v.endpoints {
		if e.ready && len(servers) < MaxServers {
			udp, tcp := v.queryPort(e, e.udp, corev1.ProtocolUDP), v.queryPort(e, e.tcp, corev1.ProtocolTCP)
			servers = append(servers, Server{netip.AddrPortFrom(e.addr, udp), netip.AddrPortFrom(e.addr, tcp), RoleEndpoint})
		}
	}
	return servers
}

// queryPort returns the port at which to query an endpoint: that of the Service; if the Service does
// not have the protocol, or leads to no port of the pods, which are findings of their own, that of the
// pod, which would be blamed otherwise.
func (v *view) queryPort(e endpoint, port int32, protocol corev1.Protocol) uint16 {
	if declared := dnsPorts(v.dnsPodNames[e.pod], protocol); port == 0 && len(declared) > 0 {
		port = declared[0]
	}
	return uint16(cmp.Or(port, e.port(protocol), dnsPort))
}

// Plan returns the queries to servers by a means: names of the cluster, over UDP and TCP, and one outside, external,
// with a final dot ("": none). This machine also sends queries that show whether packets are lost. now is the time of
// the snapshot.
func Plan(s *Snapshot, means string, servers []Server, external string, now time.Time) (queries []Query) {
	v := newView(s)
	if _, err := fqdn.ParseName(v.domain); err != nil {
		return nil
	}
	questions := v.questions(external, now)
	if means == MeansContainer {
		questions = slices.DeleteFunc(questions, func(q Query) bool { return q.Delay > 0 })
	}
	for _, server := range servers {
		for _, q := range questions {
			q.Server, q.Role, q.Means = server.UDP, server.Role, means
			if q.Protocol == TCP {
				q.Server = server.TCP
			}
			queries = append(queries, q)
		}
	}
	return queries
}

// questions returns the queries to each server, without the server.
func (v *view) questions(external string, now time.Time) (list []Query) {
	add := func(protocol, name, qtype string, delay time.Duration) {
		list = append(list, Query{Protocol: protocol, Name: name, Type: qtype, Delay: delay})
	}
	api := "kubernetes.default.svc." + v.domain + "." // each cluster has it
	add(UDP, api, "A", 0)
	add(UDP, api, "AAAA", 0)
	add(TCP, api, "A", 0)
	for _, name := range v.newest(now) {
		add(UDP, name, "A", 0)
	}
	if external != "" {
		add(UDP, external, "A", 0)
		add(UDP, external, "AAAA", 0)
	}
	for i := range lossUDP {
		add(UDP, api, "A", time.Duration(i+1)*lossInterval)
	}
	for i := range lossTCP {
		add(TCP, api, "A", time.Duration(i+1)*lossInterval)
	}
	return list
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

// String returns what ParseQuery parses: PROTOCOL,SERVER,TYPE,NAME.
func (q Query) String() string {
	return strings.Join([]string{q.Protocol, q.Server.String(), q.Type, q.Name}, ",")
}

// ParseQuery parses the argument of a container that sends a query.
func ParseQuery(text string) (Query, error) {
	fields := strings.SplitN(text, ",", 4)
	if len(fields) != 4 {
		return Query{}, fmt.Errorf("query %q: want PROTOCOL,SERVER,TYPE,NAME", text)
	}
	q := Query{Protocol: fields[0], Type: fields[2], Name: fields[3], Means: MeansNetwork, Role: RoleFlag}
	if q.Protocol != UDP && q.Protocol != TCP {
		return q, fmt.Errorf("query %q: protocol %q: want udp or tcp", text, q.Protocol)
	}
	if q.Type != "A" && q.Type != "AAAA" {
		return q, fmt.Errorf("query %q: type %q: want A or AAAA", text, q.Type)
	}
	if _, ok := dns.IsDomainName(q.Name); !ok || !dns.IsFqdn(q.Name) {
		return q, fmt.Errorf("query %q: name %q: want a domain name with a final dot", text, q.Name)
	}
	var err error
	if q.Server, err = netip.ParseAddrPort(fields[1]); err != nil {
		return q, fmt.Errorf("query %q: server %q: want IP:PORT", text, fields[1])
	}
	return q, nil
}
