// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Status is whether a name exists.
type Status uint8

// The statuses.
const (
	NotInZone Status = iota // not in the cluster zone or a reverse range of the cluster
	Unknown                 // the zone is not loaded: SERVFAIL
	NXDomain                // neither the name nor a name below it exists
	Exists                  // NOERROR, or NODATA if it owns no record of the type
)

// VersionTTL is the TTL of the version record, in seconds (specification 2.2).
const VersionTTL = 28800

// specVersion is the version of the specification.
const specVersion = "1.1.0"

// Node is a name that exists, with its records. The zero Node is an empty non-terminal.
type Node struct {
	V4, V6 []netip.Addr // of its A and AAAA records, ascending; empty if Large; must not be changed
	Large  bool         // it has more than 1,024 addresses, which Sample returns
	Alias  fqdn.Name    // target of its CNAME record, the only record then; "": none
	Text   string       // of its TXT record; "": none
	Apex   bool         // it has the SOA and NS records of the domain or of a reverse zone

	external    fqdn.Name // the external zone that has the name; "": none
	snapshot    *Snapshot
	svc         *service // SRV of its ports
	port, proto string   // "": all named ports of svc
	owners      *owner   // PTR
	addr        netip.Addr
}

// Lookup looks up a name. The second result is the apex of the zone that contains the name, whose SOA record a
// negative answer needs. It is empty for NotInZone. Without Config.Reverse each reverse name of an address in the
// cluster is the apex of a zone: the server is not authoritative for the names above it.
func (s *Snapshot) Lookup(name fqdn.Name) (Status, fqdn.Name, Node) {
	apex := s.config.Domain
	below, ok := name.Within(apex)
	for _, zone := range s.config.External {
		if labels, within := name.Within(zone); within && (!ok || len(zone) > len(apex)) {
			apex, below, ok = zone, labels, true
		}
	}
	if !ok {
		return s.lookupReverse(name)
	}
	if !s.loaded {
		return Unknown, apex, Node{}
	}
	node, ok := s.lookupBelow(apex, below)
	if !ok {
		return NXDomain, apex, Node{}
	}
	return Exists, apex, node
}

// maxDepth is the largest number of labels below the domain, that of _port._proto.service.namespace.svc.
const maxDepth = 5

// lookupBelow looks up a name in the zone at apex, the domain or an external zone, given the labels below it.
func (s *Snapshot) lookupBelow(apex, below fqdn.Name) (Node, bool) {
	var labels [maxDepth]string // outermost first
	n := 0
	for below != "" {
		if n == maxDepth {
			return Node{}, false
		}
		labels[maxDepth-1-n], below = below.Cut()
		n++
	}
	copy(labels[:], labels[maxDepth-n:])
	path := labels[:n]
	switch {
	case apex != s.config.Domain:
		return s.lookupExternal(apex, path)
	case n == 0:
		return Node{Apex: true, snapshot: s}, true
	}
	switch path[0] {
	case "svc":
		return s.lookupService(path[1:], false)
	case "pod":
		return s.lookupPod(path[1:])
	case "dns":
		return s.lookupNameServer(path[1:], false)
	case "dns-version":
		return Node{Text: specVersion}, n == 1
	}
	return Node{}, false
}

// lookupExternal looks up a name in an external zone.
func (s *Snapshot) lookupExternal(apex fqdn.Name, path []string) (node Node, ok bool) {
	switch {
	case len(path) == 0:
		node, ok = Node{Apex: true, snapshot: s}, true
	case path[0] == "dns":
		node, ok = s.lookupNameServer(path[1:], true)
	default:
		node, ok = s.lookupService(path, true)
	}
	node.external = apex
	return node, ok
}

// lookupService looks up a name above, of or below a Service, in the domain or in an external zone.
func (s *Snapshot) lookupService(path []string, external bool) (Node, bool) {
	switch len(path) {
	case 0:
		return Node{}, true
	case 1:
		return Node{}, s.hasNamespace(path[0])
	}
	svc := s.service(path[0], path[1])
	if external {
		svc = svc.external()
	}
	if !svc.exists() {
		return Node{}, false
	}
	v := svc.view()
	switch {
	case !v.exists:
		return Node{}, false
	case v.alias != "":
		return Node{Alias: v.alias}, len(path) == 2
	case len(path) == 2:
		return Node{V4: v.v4, V6: v.v6, Large: v.large, snapshot: s, svc: svc}, true
	case len(path) == 3 && strings.HasPrefix(path[2], "_"):
		return Node{}, svc.hasPort("", path[2][1:])
	case len(path) == 3:
		v4, v6 := s.hostAddrs(svc, path[2])
		return Node{V4: v4, V6: v6}, len(v4)+len(v6) > 0
	case len(path) == 4 && strings.HasPrefix(path[2], "_") && strings.HasPrefix(path[3], "_"):
		port, proto := path[3][1:], path[2][1:]
		return Node{snapshot: s, svc: svc, port: port, proto: proto}, port != "" && svc.hasPort(port, proto)
	}
	return Node{}, false
}

// service returns the service of that name, or nil.
func (s *Snapshot) service(namespace, name string) *service {
	var buf [maxKey]byte
	return get(s.services, serviceKey(&buf, namespace, name))
}

func (s *Snapshot) hasNamespace(name string) bool { return s.namespaces.get(name) != nil }

func (s *Snapshot) lookupPod(path []string) (Node, bool) {
	if len(path) == 0 {
		return Node{}, true
	}
	if s.config.Pods == PodsDisabled {
		return Node{}, false
	}
	switch len(path) {
	case 1:
		return Node{}, s.hasNamespace(path[0])
	case 2:
		addr, ok := parseAddrLabel(path[1])
		if !ok || !s.hasNamespace(path[0]) {
			return Node{}, false
		}
		switch s.config.Pods {
		case PodsVerified:
			ok = s.pods.get(labelKey(path[0])+addrKey(addr)) != nil
		case PodsInsecure:
			ok = s.config.canBePod(addr)
		}
		if !ok {
			return Node{}, false
		}
		v4, v6 := splitFamilies([]netip.Addr{addr})
		return Node{V4: v4, V6: v6}, true
	}
	return Node{}, false
}

// canBePod reports whether a pod can have the address: a unicast address of more than one link, in the reverse ranges
// if there are any. For other addresses a name would serve only attacks: with one for 127.0.0.1 or 169.254.169.254 a
// web page gets access to services that trust the local host or the node (DNS rebinding).
func (c *Config) canBePod(addr netip.Addr) bool {
	thisNetwork := addr.Is4() && addr.As4()[0] == 0 // 0.0.0.0/8, RFC 1122 section 3.2.1.3
	if !addr.IsGlobalUnicast() || addr.Is4In6() || thisNetwork {
		return false
	}
	return len(c.Reverse) == 0 || slices.ContainsFunc(c.Reverse, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// lookupNameServer looks up dns.<zone> and ns.dns.<zone>, the primary name server in the SOA
// record: the Service of this server, or else its own addresses. In an external zone it is ns1.dns.<zone>, as
// in CoreDNS: zones above have its name.
func (s *Snapshot) lookupNameServer(path []string, external bool) (Node, bool) {
	label := "ns"
	if external {
		label = "ns1"
	}
	if len(path) == 0 {
		return Node{}, true
	}
	if len(path) > 1 || path[0] != label {
		return Node{}, false
	}
	addrs := slices.Clone(s.config.Local)
	if services := s.nameServers(); len(services) > 0 {
		addrs = nil
		for _, svc := range services {
			if external {
				svc = svc.external()
			}
			if svc != nil {
				v := svc.view()
				addrs = append(append(addrs, v.v4...), v.v6...)
			}
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	v4, v6 := splitFamilies(slices.Compact(addrs))
	return Node{V4: v4, V6: v6}, true
}

// nameServers returns the Services that have an address of this server as an endpoint, except
// large ones: no Service of name servers has so many endpoints.
func (s *Snapshot) nameServers() []*service {
	var found []*service
	for _, addr := range s.config.Local {
		for o := range s.owners(addrKey(addr)) {
			svc := s.service(o.id.namespace, o.id.name)
			if !o.cluster && !svc.view().large && !slices.Contains(found, svc) {
				found = append(found, svc)
			}
		}
	}
	return found
}
