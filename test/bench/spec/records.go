// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/world"
)

const (
	// TTL is the TTL of records and of negative replies.
	TTL = 5

	schemaVersion    = "1.1.0"
	schemaVersionTTL = 28800 // of the specification's example, and of CoreDNS
)

// Zone holds the records of a cluster.
type Zone struct {
	name    string // of the cluster
	self    []netip.Addr
	podMode string
	records map[string][]dns.RR // by owner; an owner without records exists too
	exists  map[string]bool     // owners and the names above them
}

// New returns the records of w. self holds the server's addresses; podMode is disabled,
// insecure or verified.
func New(w *world.World, self []netip.Addr, podMode string) *Zone {
	z := &Zone{name: world.Zone, self: self, podMode: podMode, records: map[string][]dns.RR{}, exists: map[string]bool{}}
	z.add(z.name, &dns.SOA{Ns: "ns.dns." + z.name, Mbox: "hostmaster." + z.name, Minttl: TTL})
	z.add("dns-version."+z.name, &dns.TXT{Hdr: dns.RR_Header{Ttl: schemaVersionTTL}, Txt: []string{schemaVersion}}) // 2.2
	z.add("svc." + z.name)
	z.add("pod." + z.name)
	for _, n := range w.Namespaces {
		z.add(n.Name + ".svc." + z.name)
		if podMode != "disabled" {
			z.add(n.Name + ".pod." + z.name)
		}
	}
	for _, s := range w.Services {
		if !w.HasNamespace(s.Namespace) {
			continue
		}
		own := s.Name + "." + s.Namespace + ".svc." + z.name
		switch {
		case world.IsExternal(s):
			z.external(own, s)
		case world.IsHeadless(s):
			z.headless(own, s, w.SlicesOf(s.Namespace, s.Name))
		default:
			z.clusterIP(own, s, w.SlicesOf(s.Namespace, s.Name))
		}
	}
	z.reverseOnlyServices(w)
	z.nameServers(w, self)
	if podMode == "verified" {
		z.pods(w)
	}
	return z
}

// Of returns the records of w on the same server.
func (z *Zone) Of(w *world.World) *Zone { return New(w, z.self, z.podMode) }

// AnswersAnyPod reports whether pods need not exist: an address with dashes is the name of one.
func (z *Zone) AnswersAnyPod() bool { return z.podMode == "insecure" }

// add adds name with records.
func (z *Zone) add(name string, records ...dns.RR) {
	name = dns.CanonicalName(name)
	for _, rr := range records {
		h := rr.Header()
		h.Name, h.Class, h.Rrtype = name, dns.ClassINET, typeOf(rr)
		if h.Ttl == 0 {
			h.Ttl = TTL
		}
		if !slices.ContainsFunc(z.records[name], func(other dns.RR) bool { return dns.IsDuplicate(rr, other) }) {
			z.records[name] = append(z.records[name], rr)
		}
	}
	for parent := range parents(name) {
		z.exists[parent] = true
	}
}

func typeOf(rr dns.RR) uint16 {
	switch rr.(type) {
	case *dns.A:
		return dns.TypeA
	case *dns.AAAA:
		return dns.TypeAAAA
	case *dns.CNAME:
		return dns.TypeCNAME
	case *dns.NS:
		return dns.TypeNS
	case *dns.PTR:
		return dns.TypePTR
	case *dns.SOA:
		return dns.TypeSOA
	case *dns.SRV:
		return dns.TypeSRV
	case *dns.TXT:
		return dns.TypeTXT
	default:
		panic(fmt.Sprintf("spec: a record of type %T", rr))
	}
}

// address adds the record of ip to name.
func (z *Zone) address(name, ip string) {
	a := netip.MustParseAddr(ip)
	if a.Is4() {
		z.add(name, &dns.A{A: net.IP(a.AsSlice())})
	} else {
		z.add(name, &dns.AAAA{AAAA: net.IP(a.AsSlice())})
	}
}

func reverse(ip string) string {
	name, err := dns.ReverseAddr(ip)
	if err != nil {
		panic(err)
	}
	return name
}

// clusterIP adds the records of section 2.3, and names for the endpoints.
func (z *Zone) clusterIP(own string, s *corev1.Service, slices []*discoveryv1.EndpointSlice) {
	for _, ip := range s.Spec.ClusterIPs {
		z.address(own, ip)
		z.add(reverse(ip), &dns.PTR{Ptr: own})
	}
	for _, p := range s.Spec.Ports {
		z.port(own, p.Name, string(p.Protocol), p.Port, own)
	}
	for e, ip := range endpoints(s, slices) {
		name := world.Hostname(e.Endpoint, ip) + "." + own
		z.address(name, ip)
		z.add(reverse(ip), &dns.PTR{Ptr: name})
	}
}

// headless adds the records of section 2.4. The port is the endpoint's, as in CoreDNS.
func (z *Zone) headless(own string, s *corev1.Service, slices []*discoveryv1.EndpointSlice) {
	for e, ip := range endpoints(s, slices) {
		name := world.Hostname(e.Endpoint, ip) + "." + own
		z.address(own, ip)
		z.address(name, ip)
		z.add(reverse(ip), &dns.PTR{Ptr: name})
		for _, p := range e.slice.Ports {
			z.port(own, *p.Name, string(*p.Protocol), *p.Port, name)
		}
	}
}

// port adds SRV records for a port that has a name.
func (z *Zone) port(own, port, protocol string, number int32, target string) {
	if port == "" {
		return
	}
	for _, name := range []string{"_" + port + "._" + protocol + "." + own, own} {
		z.add(name, &dns.SRV{Port: uint16(number), Target: target})
	}
}

// external adds the record of section 2.5. An address is not served as a name.
func (z *Zone) external(own string, s *corev1.Service) {
	if _, err := netip.ParseAddr(s.Spec.ExternalName); err != nil {
		z.add(own, &dns.CNAME{Target: dns.CanonicalName(s.Spec.ExternalName)})
	}
}

// endpoint is a ready endpoint, and the slice that it is in.
type endpoint struct {
	discoveryv1.Endpoint
	slice *discoveryv1.EndpointSlice
}

// endpoints yields the ready endpoints with each of their addresses.
func endpoints(s *corev1.Service, slices []*discoveryv1.EndpointSlice) func(func(endpoint, string) bool) {
	return func(yield func(endpoint, string) bool) {
		for _, slice := range slices {
			if slice.AddressType != discoveryv1.AddressTypeFQDN && !yieldEndpoints(s, slice, yield) {
				return
			}
		}
	}
}

func yieldEndpoints(s *corev1.Service, slice *discoveryv1.EndpointSlice, yield func(endpoint, string) bool) bool {
	for _, e := range slice.Endpoints {
		if !world.IsReady(e) && !world.ToleratesUnready(s) {
			continue
		}
		for _, ip := range e.Addresses {
			if !yield(endpoint{e, slice}, ip) {
				return false
			}
		}
	}
	return true
}

// reverseOnlyServices gives the reverse name of a cluster IP to its Service alone, also
// when the address is an endpoint.
func (z *Zone) reverseOnlyServices(w *world.World) {
	for _, s := range w.Services {
		for _, ip := range s.Spec.ClusterIPs {
			if ip == corev1.ClusterIPNone || !w.HasNamespace(s.Namespace) {
				continue
			}
			own := s.Name + "." + s.Namespace + ".svc." + z.name
			z.records[reverse(ip)] = []dns.RR{&dns.PTR{
				Hdr: dns.RR_Header{Name: reverse(ip), Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: TTL}, Ptr: own,
			}}
		}
	}
}

// nameServers adds NS records for the Services that have the server as an endpoint, with
// their addresses at ns.dns. Without such a Service, ns.dns has the server's addresses.
func (z *Zone) nameServers(w *world.World, self []netip.Addr) {
	origin := "ns.dns." + z.name
	isSelf := func(ip string) bool { a, err := netip.ParseAddr(ip); return err == nil && slices.Contains(self, a) }
	found := false
	for _, s := range w.Services {
		for _, ip := range endpoints(s, w.SlicesOf(s.Namespace, s.Name)) {
			if !isSelf(ip) {
				continue
			}
			found = true
			z.add(z.name, &dns.NS{Ns: s.Name + "." + s.Namespace + ".svc." + z.name})
			for _, ip := range s.Spec.ClusterIPs {
				z.address(origin, ip)
			}
		}
	}
	z.add(origin)
	if !found && len(self) > 0 {
		z.add(z.name, &dns.NS{Ns: origin})
		for _, a := range self {
			z.address(origin, a.String())
		}
	}
}

// pods adds the names of running pods.
func (z *Zone) pods(w *world.World) {
	for _, p := range w.Pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed ||
			p.DeletionTimestamp != nil || !w.HasNamespace(p.Namespace) {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			label := strings.NewReplacer(".", "-", ":", "-").Replace(ip.IP)
			z.address(label+"."+p.Namespace+".pod."+z.name, ip.IP)
		}
	}
}

// parents yields name and the names above it except the root.
func parents(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(name); {
			if !yield(name[i:]) {
				return
			}
			dot := strings.IndexByte(name[i:], '.')
			i += dot + 1
		}
	}
}

// File returns the zone as a zone file, for servers that read one.
func (z *Zone) File() string {
	var b strings.Builder
	for _, rr := range z.records[z.name] {
		b.WriteString(rr.String() + "\n") // the SOA record comes first
	}
	for _, name := range slices.Sorted(maps.Keys(z.records)) {
		if name != z.name && dns.IsSubDomain(z.name, name) {
			for _, rr := range z.records[name] {
				b.WriteString(rr.String() + "\n")
			}
		}
	}
	return b.String()
}
