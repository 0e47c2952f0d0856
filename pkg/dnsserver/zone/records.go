// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// SRV is an SRV record with the addresses of its target (RFC 2782). The priority is 0.
type SRV struct {
	Weight uint16
	Port   uint16
	Target fqdn.Name
	V4, V6 []netip.Addr // of the target
}

// hasPort reports whether the service has a named port with the protocol and, unless it is
// "", the name. The ports of a headless Service are those of its endpoints.
func (s *service) hasPort(name, proto string) bool {
	match := func(p Port) bool { return p.Name != "" && p.Protocol == proto && (name == "" || p.Name == name) }
	if !s.spec.Headless() {
		return slices.ContainsFunc(s.spec.Ports, match)
	}
	for _, slice := range s.slices {
		if slices.ContainsFunc(slice.Ports, match) && slices.ContainsFunc(slice.Endpoints, s.serves) {
			return true
		}
	}
	return false
}

// SRV returns the SRV records of the node (specification 2.3.2 and 2.4.2). Endpoints have
// ports of their own, so that those of a headless Service come from its slices.
func (n Node) SRV() []SRV {
	if n.svc == nil {
		return nil
	}
	var list []SRV
	if n.svc.spec.Headless() {
		list = n.endpointSRV()
	} else {
		list = n.serviceSRV()
	}
	compare := func(a, b SRV) int { return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port)) }
	slices.SortFunc(list, compare)
	list = slices.CompactFunc(list, func(a, b SRV) bool { return compare(a, b) == 0 })
	for i := range list {
		list[i].Weight = uint16(max(1, 100/len(list)))
	}
	return list
}

// hasSRV reports whether the node has SRV records of a port.
func (n Node) hasSRV(p Port) bool {
	return p.Name != "" && (n.port == "" || p.Name == n.port && p.Protocol == n.proto)
}

// serviceSRV returns a record for each port, with the cluster IPs.
func (n Node) serviceSRV() []SRV {
	var list []SRV
	name, v := n.snapshot.serviceName(n.svc.identity), n.svc.view()
	for _, p := range n.svc.spec.Ports {
		if n.hasSRV(p) {
			list = append(list, SRV{Port: p.Number, Target: name, V4: v.v4, V6: v.v6})
		}
	}
	return list
}

// endpointSRV returns a record for each endpoint and port.
func (n Node) endpointSRV() []SRV {
	var list []SRV
	name, v := n.snapshot.serviceName(n.svc.identity), n.svc.view()
	for _, slice := range n.svc.slices {
		ports := slices.DeleteFunc(slices.Clone(slice.Ports), func(p Port) bool { return !n.hasSRV(p) })
		for _, ep := range slice.Endpoints {
			if len(ports) == 0 || !n.svc.serves(ep) {
				continue
			}
			host := hostLabel(ep.Hostname, ep.Addr)
			v4, v6 := v.hostAddrs(host)
			for _, p := range ports {
				list = append(list, SRV{Port: p.Number, Target: fqdn.Join(name, host), V4: v4, V6: v6})
			}
		}
	}
	return list
}

// PTR returns the names of the address of the node (specification 2.3.3 and 2.4.3). A
// cluster IP has one name, that of its Service.
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

// NS returns the name servers of the zone if the node is its apex: the Services of this
// server, or else ns.dns below the zone.
func (n Node) NS() []NS {
	if !n.Apex {
		return nil
	}
	var list []NS
	for _, svc := range n.snapshot.nameServers() {
		v := svc.view()
		list = append(list, NS{n.snapshot.serviceName(svc.identity), v.v4, v.v6})
	}
	if len(list) == 0 {
		self, _ := n.snapshot.lookupNameServer([]string{"ns"})
		list = []NS{{PrimaryName(n.snapshot.config.Domain), self.V4, self.V6}}
	}
	return list
}

// PrimaryName returns the primary name server in the SOA record of a zone.
func PrimaryName(zone fqdn.Name) fqdn.Name { return fqdn.Join(zone, "ns", "dns") }

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
