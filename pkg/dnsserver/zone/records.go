// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// SRV is what a name says of one port of one target (RFC 2782). The priority is 0.
type SRV struct {
	Weight uint16
	Port   uint16
	Target fqdn.Name
	V4, V6 []netip.Addr // the target's
}

// hasPort reports whether a named port of the service, or of its endpoints if it is
// headless, has the protocol, and the name unless that is "".
func (s *service) hasPort(name, proto string) bool {
	is := func(p Port) bool { return p.Name != "" && p.Protocol == proto && (name == "" || p.Name == name) }
	if !s.spec.Headless() {
		return slices.ContainsFunc(s.spec.Ports, is)
	}
	for _, slice := range s.slices {
		if slices.ContainsFunc(slice.Ports, is) && slices.ContainsFunc(slice.Endpoints, s.has) {
			return true
		}
	}
	return false
}

// SRV returns the node's SRV records (specification 2.3.2 and 2.4.2). Endpoints
// are reached at their own port, so a headless Service's come from its slices.
func (n Node) SRV() []SRV {
	if n.svc == nil {
		return nil
	}
	wanted := func(p Port) bool {
		return p.Name != "" && (n.port == "" || p.Name == n.port && p.Protocol == n.proto)
	}
	var list []SRV
	name := n.snapshot.serviceName(n.svc.identity)
	v := n.svc.look()
	if !n.svc.spec.Headless() {
		for _, p := range n.svc.spec.Ports {
			if wanted(p) {
				list = append(list, SRV{Port: p.Number, Target: name, V4: v.v4, V6: v.v6})
			}
		}
	}
	for _, slice := range n.svc.headlessSlices() {
		for _, p := range slice.Ports {
			if !wanted(p) {
				continue
			}
			for _, ep := range slice.Endpoints {
				if n.svc.has(ep) {
					host := hostLabel(ep.Hostname, ep.Addr)
					v4, v6 := v.host(host)
					list = append(list, SRV{Port: p.Number, Target: fqdn.Join(name, host), V4: v4, V6: v6})
				}
			}
		}
	}
	compare := func(a, b SRV) int { return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port)) }
	slices.SortFunc(list, compare)
	list = slices.CompactFunc(list, func(a, b SRV) bool { return compare(a, b) == 0 })
	for i := range list {
		list[i].Weight = uint16(max(1, 100/len(list)))
	}
	return list
}

// headlessSlices are the slices whose ports are the service's: none if it has a
// cluster IP.
func (s *service) headlessSlices() []*EndpointSlice {
	if !s.spec.Headless() {
		return nil
	}
	return s.slices
}

// PTR returns the names of the node's address (specification 2.3.3 and 2.4.3): a
// cluster IP has one, its Service's.
func (n Node) PTR() []fqdn.Name {
	var names []fqdn.Name
	for _, o := range n.owners {
		name := n.snapshot.serviceName(o.id)
		if o.cluster {
			return []fqdn.Name{name}
		}
		names = append(names, fqdn.Join(name, hostLabel(o.host, n.addr)))
	}
	return names
}

// NS is a name server of the zone.
type NS struct {
	Name   fqdn.Name
	V4, V6 []netip.Addr
}

// NS returns the zone's name servers, for the apex only: the Services that
// lead to us, or ns.dns below the zone.
func (n Node) NS() []NS {
	if !n.Apex {
		return nil
	}
	var list []NS
	for _, svc := range n.snapshot.nameServers() {
		v := svc.look()
		list = append(list, NS{n.snapshot.serviceName(svc.identity), v.v4, v.v6})
	}
	if len(list) == 0 {
		self, _ := n.snapshot.findServer([]string{"ns"})
		list = []NS{{PrimaryName(n.snapshot.config.Domain), self.V4, self.V6}}
	}
	return list
}

// PrimaryName is the server that the SOA record of a zone names.
func PrimaryName(zone fqdn.Name) fqdn.Name { return fqdn.Join(zone, "ns", "dns") }

func (s *Snapshot) serviceName(id *identity) fqdn.Name {
	return fqdn.Join(s.config.Domain, id.name, id.namespace, "svc")
}

func hostLabel(hostname string, addr netip.Addr) string {
	if hostname != "" {
		return hostname
	}
	return dashed(addr)
}
