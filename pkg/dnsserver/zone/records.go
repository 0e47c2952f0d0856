// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
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
	for _, o := range n.owners[:min(len(n.owners), limit)] {
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

// NS returns the name servers of the zone if the node is an apex: the Services of this
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
