// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// hasPort reports whether the service has a named port with the protocol and, unless it is
// "", the name. The ports of a headless Service are those of its endpoints.
func (s *service) hasPort(name, proto string) bool {
	match := func(p Port) bool { return p.Name != "" && p.Protocol == proto && (name == "" || p.Name == name) }
	if !s.spec.headless() {
		return slices.ContainsFunc(s.spec.Ports, match)
	}
	for _, slice := range s.slices {
		if slices.ContainsFunc(slice.Ports, match) && slices.ContainsFunc(slice.Endpoints, s.serves) {
			return true
		}
	}
	return false
}

// PTR returns at most limit names of the address of the node (specification 2.3.3 and 2.4.3).
// A cluster IP has one name, that of its Service.
func (n Node) PTR(limit int) []fqdn.Name {
	var names []fqdn.Name
	for o := range n.owners.all() {
		if len(names) == limit {
			break
		}
		name := n.snapshot.serviceName(o.id)
		if o.cluster {
			return []fqdn.Name{name}
		}
		names = append(names, fqdn.Join(name, hostLabel(o.id.host, n.addr)))
	}
	return names
}

// NS is a name server of the zone.
type NS struct {
	Name   fqdn.Name
	V4, V6 []netip.Addr
}

// NS returns the name servers of the zone if the node is an apex: the Services of this
// server, or else ns.dns below the zone.
func (n Node) NS() []NS {
	if !n.Apex {
		return nil
	}
	if n.external != "" {
		self, _ := n.snapshot.lookupNameServer([]string{"ns1"}, true)
		return []NS{{ExternalPrimaryName(n.external), self.V4, self.V6}}
	}
	var list []NS
	for _, svc := range n.snapshot.nameServers() {
		v := svc.view()
		list = append(list, NS{n.snapshot.serviceName(svc.identity), v.v4, v.v6})
	}
	if len(list) == 0 {
		self, _ := n.snapshot.lookupNameServer([]string{"ns"}, false)
		list = []NS{{PrimaryName(n.snapshot.config.Domain), self.V4, self.V6}}
	}
	return list
}

// PrimaryName returns the primary name server in the SOA record of a zone.
func PrimaryName(zone fqdn.Name) fqdn.Name { return fqdn.Join(zone, "ns", "dns") }

// ExternalPrimaryName is PrimaryName for an external zone.
func ExternalPrimaryName(zone fqdn.Name) fqdn.Name { return fqdn.Join(zone, "ns1", "dns") }

// serviceName returns the name of a Service.
func (s *Snapshot) serviceName(id *identity) fqdn.Name {
	return fqdn.Join(s.config.Domain, id.name, id.namespace, "svc")
}

// hostLabel returns the label of an endpoint below its Service.
func hostLabel(hostname string, addr netip.Addr) string {
	if hostname != "" {
		return hostname
	}
	return addrLabel(addr)
}

// view holds the addresses at the name of a service, computed from its slices on the first lookup.
type view struct {
	exists bool         // the name exists
	alias  fqdn.Name    // of a Service of type ExternalName
	v4, v6 []netip.Addr // of the service's name, ascending; empty if it is large
	large  bool         // more than maxSorted addresses: each lookup reads what it needs
}

// view returns the view of a service that exists.
func (s *service) view() *view {
	v := s.cachedView.Load()
	if v == nil {
		v = s.computeView()
		s.cachedView.Store(v)
	}
	return v
}

func (s *service) computeView() *view {
	if s.spec.ExternalName != "" {
		// Neither an address nor an invalid name can be the target of a CNAME record.
		alias, err := fqdn.ParseName(s.spec.ExternalName)
		if _, notAddr := netip.ParseAddr(s.spec.ExternalName); err != nil || notAddr == nil {
			return &view{}
		}
		return &view{exists: true, alias: alias}
	}
	if !s.spec.headless() {
		v := &view{exists: true}
		all := slices.Clone(s.spec.ClusterIPs)
		slices.SortFunc(all, netip.Addr.Compare)
		v.v4, v.v6 = splitFamilies(slices.Compact(all))
		return v
	}
	all := collectAddrs(nil, s.servedFirst(0, 0), maxSorted+1)
	if len(all) > maxSorted {
		return &view{exists: true, large: true}
	}
	v := &view{exists: len(all) > 0} // specification 2.4.1
	v.v4, v.v6 = splitFamilies(slices.Clip(all))
	return v
}

// splitFamilies splits ascending addresses; netip sorts IPv4 first.
func splitFamilies(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	i := 0
	for i < len(addrs) && addrs[i].Is4() {
		i++
	}
	return addrs[:i:i], addrs[i:]
}

// maxSorted is the largest number of addresses of a headless Service that are sorted and kept for
// its lookups, after each change. 1,024 addresses take 0.1 ms, 100,000 take 10 ms. Of a larger
// Service each lookup reads as many endpoints as fit into the reply.
const maxSorted = 1024

// Sample returns at most limit different addresses of a node that is Large, ascending. They are the addresses of
// consecutive endpoints, the first of which is random. It writes them to buf if its capacity suffices.
func (n *Node) Sample(buf []netip.Addr, is4 bool, limit int) []netip.Addr {
	of := func(yield func(Endpoint, *EndpointSlice) bool) {
		for ep, slice := range n.svc.servedRandom() {
			if ep.Addr.Is4() == is4 && !yield(ep, slice) {
				return
			}
		}
	}
	return collectAddrs(buf[:0], of, limit)
}

// Version identifies the version of the Service whose addresses and SRV records the node has. It
// is 0 for other nodes. Equal names with equal versions have equal records.
func (n *Node) Version() uint64 {
	if n.svc == nil {
		return 0
	}
	return n.svc.version
}

// servedRandom yields the endpoints that the service serves, beginning with a random one. An
// endpoint may be in several slices.
func (s *service) servedRandom() iter.Seq2[Endpoint, *EndpointSlice] {
	slice := rand.IntN(len(s.slices))
	return s.servedFirst(slice, rand.IntN(max(1, len(s.slices[slice].Endpoints))))
}

// servedFirst yields the endpoints that the service serves, beginning at the indices of a slice and
// of an endpoint in it.
func (s *service) servedFirst(slice, endpoint int) iter.Seq2[Endpoint, *EndpointSlice] {
	return func(yield func(Endpoint, *EndpointSlice) bool) {
		if len(s.slices) == 0 {
			return
		}
		for i := range len(s.slices) + 1 { // the first slice once more, up to the endpoint
			at := s.slices[(slice+i)%len(s.slices)]
			part := at.Endpoints
			switch i {
			case 0:
				part = part[endpoint:]
			case len(s.slices):
				part = part[:endpoint]
			}
			for _, ep := range part {
				if s.serves(ep) && !yield(ep, at) {
					return
				}
			}
		}
	}
}

// collectAddrs appends different addresses to buf until it has limit of them, and sorts them.
func collectAddrs(buf []netip.Addr, endpoints iter.Seq2[Endpoint, *EndpointSlice], limit int) []netip.Addr {
	compact := func() {
		slices.SortFunc(buf, netip.Addr.Compare)
		buf = slices.Compact(buf)
	}
	next := limit // the length at which duplicates are removed; they are rare
	for ep := range endpoints {
		if buf = append(buf, ep.Addr); len(buf) < next {
			continue
		}
		compact()
		if len(buf) >= limit {
			return buf[:limit]
		}
		next = 2 * limit // many duplicates: sort once for many of them
	}
	compact()
	return buf[:min(len(buf), limit)]
}

// sampleTargets returns limit or more targets with a port that match accepts, or else all targets.
// It returns all targets of a Service with hostnames, because several endpoints may share a
// hostname: they are sorted once after each change. StatefulSets are never that large.
func (s *service) sampleTargets(limit int, match func(Port) bool) []Target {
	if s.named > 0 {
		return s.targets().endpoints
	}
	members := make([]member, 0, limit)
	compact := func() {
		slices.SortFunc(members, compareTargets)
		members = slices.CompactFunc(members, func(a, b member) bool { return a.addr == b.addr })
	}
	next := limit
	var last *EndpointSlice
	var ports []Port // of last, or nil if no port matches
	for ep, slice := range s.servedRandom() {
		if slice != last {
			last, ports = slice, namedPorts(slice.Ports)
			if !slices.ContainsFunc(ports, match) {
				ports = nil
			}
		}
		if ports == nil {
			continue
		}
		if members = append(members, member{addr: ep.Addr, ports: ports}); len(members) < next {
			continue
		}
		if compact(); len(members) >= limit {
			return targetsOf(members)
		}
		next = 2 * limit // as in collectAddrs
	}
	return s.targets().endpoints
}

// targetsOf returns a target for each of the members, which have no hostname.
func targetsOf(members []member) []Target {
	addrs, list := make([]netip.Addr, len(members)), make([]Target, len(members))
	for i, m := range members {
		addrs[i] = m.addr
		list[i].ports = m.ports
		list[i].V4, list[i].V6 = splitFamilies(addrs[i : i+1 : i+1])
	}
	return list
}

// largeHostAddrs is hostAddrs for a large service without hostnames. The label of each endpoint is
// its address, so that the owners of the address show whether the endpoint exists.
func (s *Snapshot) largeHostAddrs(svc *service, label string) (v4, v6 []netip.Addr) {
	addr, ok := parseLabel(label)
	if !ok {
		return nil, nil
	}
	for o := range s.owners(addrKey(addr)) {
		if !o.cluster && o.id == svc.identity {
			return splitFamilies([]netip.Addr{addr})
		}
	}
	return nil, nil
}

// HasEndpoint reports whether an address is that of an endpoint of a Service. Endpoints that
// are not ready do not count, unless the Service has PublishNotReady.
func (s *Snapshot) HasEndpoint(namespace, service string, addr netip.Addr) bool {
	for o := range s.owners(addrKey(addr)) {
		if !o.cluster && o.id.namespace == namespace && o.id.name == service {
			return true
		}
	}
	return false
}

// owners yields the names with a PTR record at an address, given its key.
func (s *Snapshot) owners(key string) iter.Seq[*owner] {
	return s.addrs.get(key).all()
}
