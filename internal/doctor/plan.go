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
)

// The roles of a DNS server.
const (
	RoleService  = "service"  // an address of the DNS Service
	RoleEndpoint = "endpoint" // a ready pod of the cluster DNS
	RoleFlag     = "flag"     // given on the command line
)

// The means by which a DNS server is queried. They do not show the same: a forwarded port leads to one pod, over TCP
// only, and shows nothing of the network.
const (
	MeansNetwork   = "network"             // this machine sends the query to the server
	MeansForward   = "port-forward"        // the node of the pod sends it to the pod's loopback address
	MeansContainer = "ephemeral-container" // a container in the pod of the scope sends it to the server
)

// MaxServers is the largest number of servers that are queried. A cluster with more replicas has its
// findings with these.
const MaxServers = 16

const (
	maxForwards  = 8 // pods to which a port is forwarded
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

// Forward is a pod of the cluster DNS to which a port can be forwarded.
type Forward struct {
	Namespace, Pod string
	Server         netip.AddrPort // the endpoint; its port is that of the pod
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
		if e.ready && len(servers) < MaxServers {
			udp, tcp := v.queryPort(e, e.udp, corev1.ProtocolUDP), v.queryPort(e, e.tcp, corev1.ProtocolTCP)
			servers = append(servers, Server{netip.AddrPortFrom(e.addr, udp), netip.AddrPortFrom(e.addr, tcp), RoleEndpoint})
		}
	}
	return servers
}

// Forwards returns the ready pods of the cluster DNS, each once.
func Forwards(s *Snapshot) (list []Forward) {
	v := newView(s)
	seen := map[string]bool{"": true}
	for _, e := range v.endpoints {
		if e.ready && !seen[e.pod] && len(list) < maxForwards {
			seen[e.pod] = true // a pod has an endpoint for each family
			at := netip.AddrPortFrom(e.addr, v.queryPort(e, e.tcp, corev1.ProtocolTCP))
			list = append(list, Forward{Namespace: v.dns.Namespace, Pod: e.pod, Server: at})
		}
	}
	return list
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

// Plan returns the questions for servers: names of the cluster, over UDP and TCP, one outside, external, with a
// final dot ("": none), and queries that show whether packets are lost. now is the time of the snapshot.
func Plan(s *Snapshot, servers []Server, external string, now time.Time) (queries []Query) {
	v := newView(s)
	questions := v.questions(external, now)
	if len(questions) == 0 {
		return nil
	}
	for _, server := range servers {
		add := func(protocol, name, qtype string, delay time.Duration) {
			at := server.UDP
			if protocol == TCP {
				at = server.TCP
			}
			queries = append(queries, Query{at, server.Role, MeansNetwork, protocol, name, qtype, delay})
		}
		for _, q := range questions {
			add(q.protocol, q.name, q.qtype, 0)
		}
		for i := range lossUDP {
			add(UDP, v.apiName(), "A", time.Duration(i+1)*lossInterval)
		}
		for i := range lossTCP {
			add(TCP, v.apiName(), "A", time.Duration(i+1)*lossInterval)
		}
	}
	return queries
}

// PlanForward returns the same questions for forwarded ports, over TCP.
func PlanForward(s *Snapshot, forwards []Forward, external string, now time.Time) (queries []Query) {
	for _, f := range forwards {
		for _, q := range newView(s).questions(external, now) {
			if q.protocol == UDP { // the one over TCP is there over UDP, too
				queries = append(queries, Query{f.Server, RoleEndpoint, MeansForward, TCP, q.name, q.qtype, 0})
			}
		}
	}
	return queries
}

// PlanContainer returns the questions that show whether a pod reaches servers: one over each protocol.
func PlanContainer(s *Snapshot, servers []Server) (queries []Query) {
	v := newView(s)
	if !v.hasValidDomain() {
		return nil
	}
	for _, server := range servers {
		queries = append(queries,
			Query{server.UDP, server.Role, MeansContainer, UDP, v.apiName(), "A", 0},
			Query{server.TCP, server.Role, MeansContainer, TCP, v.apiName(), "A", 0})
	}
	return queries
}

// apiName returns the name of the API server, which each cluster has.
func (v *view) apiName() string { return "kubernetes.default.svc." + v.domain + "." }

// question is a name and the type of its records.
type question struct{ protocol, name, qtype string }

// questions returns the questions to each server; none if the domain of the cluster cannot be part of a name.
func (v *view) questions(external string, now time.Time) []question {
	if !v.hasValidDomain() {
		return nil
	}
	list := []question{{UDP, v.apiName(), "A"}, {UDP, v.apiName(), "AAAA"}, {TCP, v.apiName(), "A"}}
	for _, name := range v.newest(now) {
		list = append(list, question{UDP, name, "A"})
	}
	if external != "" {
		list = append(list, question{UDP, external, "A"}, question{UDP, external, "AAAA"})
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
