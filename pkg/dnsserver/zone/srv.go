// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Target is the target of SRV records (RFC 2782): a Service, or its endpoints with one label.
type Target struct {
	V4, V6 []netip.Addr // ascending; must not be changed

	hostname string // of the endpoints; "": one endpoint, or the Service
	service  bool   // the Service itself
	ports    []Port // with a name, ascending by number
}

// AppendLabel appends the label of the target below its Service, in wire form. It appends
// nothing for the Service itself.
func (t *Target) AppendLabel(b []byte) []byte {
	start := len(b)
	switch {
	case t.service:
		return b
	case t.hostname != "":
		b = append(append(b, 0), t.hostname...)
	default:
		b = appendAddrLabel(append(b, 0), t.addr())
	}
	b[start] = byte(len(b) - start - 1)
	return b
}

// SRVSet is the set of SRV records of a node: one for each target and port number. Their priority is 0. A record is
// built when it is read: a Service may have 100,000 targets, and few fit into a reply.
type SRVSet struct {
	Service fqdn.Name // the parent of the labels of the targets

	targets     []Target
	port, proto string // "": all named ports
}

// Targets returns the number of targets, some of which may have no record.
func (s SRVSet) Targets() int { return len(s.targets) }

// All yields the target and the port number of each record, in a stable order that is rotated to begin with a target.
func (s SRVSet) All(first int) iter.Seq2[*Target, uint16] {
	return func(yield func(*Target, uint16) bool) {
		for i := range s.targets {
			t := &s.targets[(first+i)%len(s.targets)]
			last := uint16(0) // not a port
			for _, p := range t.ports {
				if p.Number == last || !s.has(p) {
					continue
				}
				if last = p.Number; !yield(t, p.Number) {
					return
				}
			}
		}
	}
}

// has reports whether the set has the records of a named port.
func (s SRVSet) has(p Port) bool {
	return s.port == "" || p.Name == s.port && p.Protocol == s.proto
}

// maxWeight is the sum of the weights of a set with at most maxWeight records. In a larger set each has the weight 1.
const maxWeight = 100

// Weight returns the weight of each record.
func (s SRVSet) Weight() uint16 {
	n := 0
	for range s.All(0) {
		if n++; n == maxWeight {
			return 1
		}
	}
	return uint16(maxWeight / max(n, 1))
}

// SRV returns the SRV records of the node (specification 2.3.2 and 2.4.2), or at least limit of them. Endpoints have
// ports of their own, so that those of a headless Service come from its slices.
func (n Node) SRV(limit int) SRVSet {
	if n.svc == nil {
		return SRVSet{}
	}
	set := SRVSet{Service: n.snapshot.serviceName(n.svc.identity), port: n.port, proto: n.proto}
	if n.external != "" {
		set.Service = fqdn.Join(n.external, n.svc.name, n.svc.namespace)
	}
	switch {
	case !n.svc.spec.headless():
		set.targets = n.svc.targets().service
	case n.svc.view().large:
		set.targets = n.svc.sampleTargets(limit, set.has)
	default:
		set.targets = n.svc.targets().endpoints
	}
	return set
}

// targets are the targets below the name of a service, and the service itself.
type targets struct {
	endpoints []Target // with a hostname, by hostname; then the others, by address
	named     int      // endpoints with a hostname
	service   []Target // one
}

// targets returns the targets of a service that exists.
func (s *service) targets() *targets {
	t := s.cachedTargets.Load()
	if t == nil {
		t = s.computeTargets()
		s.cachedTargets.Store(t)
	}
	return t
}

// member is an endpoint of a target.
type member struct {
	hostname string
	addr     netip.Addr
	ports    []Port
}

// compareTargets sorts members by target, those with a hostname first.
func compareTargets(a, b member) int {
	switch {
	case a.hostname != b.hostname && a.hostname == "":
		return 1
	case a.hostname != b.hostname && b.hostname == "":
		return -1
	case a.hostname == "":
		return a.addr.Compare(b.addr)
	}
	return cmp.Compare(a.hostname, b.hostname)
}

func (s *service) computeTargets() *targets {
	members := s.members()
	slices.SortFunc(members, func(a, b member) int { return cmp.Or(compareTargets(a, b), a.addr.Compare(b.addr)) })
	addrs := make([]netip.Addr, 0, len(members))
	v := s.view()
	all := &targets{service: []Target{{V4: v.v4, V6: v.v6, service: true, ports: namedPorts(s.spec.Ports)}}}
	for len(members) > 0 {
		n := 1
		for n < len(members) && compareTargets(members[0], members[n]) == 0 {
			n++
		}
		t, start := Target{hostname: members[0].hostname, ports: mergePorts(members[:n])}, len(addrs)
		for _, m := range members[:n] {
			addrs = append(addrs, m.addr)
		}
		t.V4, t.V6 = splitFamilies(slices.Compact(addrs[start:]))
		if t.hostname != "" {
			all.named++
		}
		all.endpoints = append(all.endpoints, t)
		members = members[n:]
	}
	return all
}

// members returns the endpoints that the service serves. A hostname may equal the label of
// another endpoint's address: both are members of one target.
func (s *service) members() []member {
	var list []member
	same := map[netip.Addr]string{} // the hostnames that equal the label of an address
	ports := []Port(nil)
	for _, slice := range s.slices {
		if next := namedPorts(slice.Ports); !slices.Equal(ports, next) { // most slices share their ports
			ports = next
		}
		for _, ep := range slice.Endpoints {
			if !s.serves(ep) {
				continue
			}
			list = append(list, member{ep.Hostname, ep.Addr, ports})
			if addr, ok := parseLabel(ep.Hostname); ok {
				same[addr] = ep.Hostname
			}
		}
	}
	if len(same) == 0 { // as a rule
		return list
	}
	for i := range list {
		if m := &list[i]; m.hostname == "" {
			m.hostname = same[m.addr]
		}
	}
	return list
}

// namedPorts returns the ports that have records, ascending by number.
func namedPorts(ports []Port) []Port {
	list := slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return p.Name == "" })
	slices.SortFunc(list, comparePorts)
	return list
}

func comparePorts(a, b Port) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol))
}

// mergePorts returns the ports of the members of a target.
func mergePorts(members []member) []Port {
	ports := members[0].ports
	for _, m := range members[1:] {
		if !slices.Equal(ports, m.ports) {
			ports = slices.Concat(ports, m.ports)
			slices.SortFunc(ports, comparePorts)
			ports = slices.Compact(ports)
		}
	}
	return ports
}

// hostAddrs returns the addresses of the endpoints of a service with a label below it.
func (s *Snapshot) hostAddrs(svc *service, label string) (v4, v6 []netip.Addr) {
	if svc.view().large && svc.named == 0 {
		return s.largeHostAddrs(svc, label)
	}
	all := svc.targets()
	named, others := all.endpoints[:all.named], all.endpoints[all.named:]
	i, found := slices.BinarySearchFunc(named, label, func(t Target, label string) int { return cmp.Compare(t.hostname, label) })
	if found {
		return named[i].V4, named[i].V6
	}
	addr, ok := parseLabel(label)
	if !ok {
		return nil, nil
	}
	i, found = slices.BinarySearchFunc(others, addr, func(t Target, addr netip.Addr) int { return t.addr().Compare(addr) })
	if !found {
		return nil, nil
	}
	return others[i].V4, others[i].V6
}

// parseLabel parses the label of an endpoint without a hostname. Unlike parseAddrLabel it accepts
// only the form of addrLabel.
func parseLabel(label string) (netip.Addr, bool) {
	addr, ok := parseAddrLabel(label)
	return addr, ok && addrLabel(addr) == label
}

// addr returns the address of an endpoint without a hostname.
func (t *Target) addr() netip.Addr {
	if len(t.V4) > 0 {
		return t.V4[0]
	}
	return t.V6[0]
}
