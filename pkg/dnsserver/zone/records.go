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

// view holds the addresses at the name of a service, computed from its slices on the first
// lookup.
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
		alias := parseAlias(s.spec.ExternalName)
		return &view{exists: alias != "", alias: alias}
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

// parseAlias parses an ExternalName. It returns "" for an address and for an invalid name:
// neither can be the target of a CNAME record.
func parseAlias(name string) fqdn.Name {
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	alias, err := fqdn.ParseName(name)
	if err != nil {
		return ""
	}
	return alias
}

// splitFamilies splits ascending addresses; netip sorts IPv4 first.
func splitFamilies(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	i := 0
	for i < len(addrs) && addrs[i].Is4() {
		i++
	}
	return addrs[:i:i], addrs[i:]
}
