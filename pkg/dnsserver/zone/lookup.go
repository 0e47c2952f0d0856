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
	V4, V6 []netip.Addr // A and AAAA, ascending; must not be changed
	Alias  fqdn.Name    // CNAME; excludes other records
	Text   string       // TXT
	Apex   bool         // SOA and NS

	snapshot    *Snapshot
	svc         *service // SRV of its ports
	port, proto string   // "": all named ports of svc
	owners      []owner  // PTR
	addr        netip.Addr
}

// Lookup looks up a name. The second result is the zone whose SOA record a negative
// answer needs; it is empty for NotInZone and Unknown.
func (s *Snapshot) Lookup(name fqdn.Name) (Status, fqdn.Name, Node) {
	below, ok := name.Within(s.config.Domain)
	if !ok {
		return s.lookupReverse(name)
	}
	if !s.loaded {
		return Unknown, "", Node{}
	}
	node, ok := s.lookupDomain(below)
	if !ok {
		return NXDomain, s.config.Domain, Node{}
	}
	return Exists, s.config.Domain, node
}

// maxDepth is the largest number of labels below the domain, that of
// _port._proto.service.namespace.svc.
const maxDepth = 5

func (s *Snapshot) lookupDomain(below fqdn.Name) (Node, bool) {
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
	if n == 0 {
		return Node{Apex: true, snapshot: s}, true
	}
	switch path[0] {
	case "svc":
		return s.lookupService(path[1:])
	case "pod":
		return s.lookupPod(path[1:])
	case "dns":
		return s.lookupNameServer(path[1:])
	case "dns-version":
		return Node{Text: specVersion}, n == 1
	}
	return Node{}, false
}

func (s *Snapshot) lookupService(path []string) (Node, bool) {
	switch len(path) {
	case 0:
		return Node{}, true
	case 1:
		return Node{}, s.hasNamespace(path[0])
	}
	svc := s.service(path[0], path[1])
	if svc == nil || svc.spec == nil {
		return Node{}, false
	}
	v := svc.view()
	switch {
	case !v.exists:
		return Node{}, false
	case v.alias != "":
		return Node{Alias: v.alias}, len(path) == 2
	case len(path) == 2:
		return Node{V4: v.v4, V6: v.v6, snapshot: s, svc: svc}, true
	case len(path) == 3 && strings.HasPrefix(path[2], "_"):
		return Node{}, svc.hasPort("", path[2][1:])
	case len(path) == 3:
		v4, v6 := v.hostAddrs(path[2])
		return Node{V4: v4, V6: v6}, len(v4)+len(v6) > 0
	case strings.HasPrefix(path[2], "_") && strings.HasPrefix(path[3], "_"):
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
		if s.config.Pods == PodsVerified && s.pods.get(labelKey(path[0])+addrKey(addr)) == nil {
			return Node{}, false
		}
		v4, v6 := splitFamilies([]netip.Addr{addr})
		return Node{V4: v4, V6: v6}, true
	}
	return Node{}, false
}

// lookupNameServer looks up dns.<zone> and ns.dns.<zone>, the primary name server in the SOA
// record: the Service of this server, or else its own addresses.
func (s *Snapshot) lookupNameServer(path []string) (Node, bool) {
	if len(path) == 0 {
		return Node{}, true
	}
	if len(path) > 1 || path[0] != "ns" {
		return Node{}, false
	}
	addrs := slices.Clone(s.config.Local)
	if services := s.nameServers(); len(services) > 0 {
		addrs = nil
		for _, svc := range services {
			v := svc.view()
			addrs = append(append(addrs, v.v4...), v.v6...)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	v4, v6 := splitFamilies(slices.Compact(addrs))
	return Node{V4: v4, V6: v6}, true
}

// nameServers returns the Services that have an address of this server as an endpoint.
func (s *Snapshot) nameServers() []*service {
	var found []*service
	for _, addr := range s.config.Local {
		owners := s.addrs.get(addrKey(addr))
		if owners == nil {
			continue
		}
		for _, o := range *owners {
			svc := s.service(o.id.namespace, o.id.name)
			if !o.cluster && !slices.Contains(found, svc) {
				found = append(found, svc)
			}
		}
	}
	return found
}

// privateRanges are the ranges of private addresses (RFC 1918, RFC 6598, RFC 4193). Before
// the zone is loaded, their reverse names are neither NXDomain nor forwarded.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

func (s *Snapshot) lookupReverse(name fqdn.Name) (Status, fqdn.Name, Node) {
	key, isAddr, ok := parseReverse(name)
	switch {
	case !ok:
		return s.lookupNonAddress(name)
	case len(key) == 1: // in-addr.arpa and ip6.arpa themselves
		return NotInZone, "", Node{}
	}
	zone, inRanges := s.reverseZone(name, key)
	if !s.loaded {
		return s.unloadedReverse(key, inRanges), "", Node{}
	}
	if node, ok := s.reverseNode(key, isAddr); ok {
		if !inRanges {
			zone = name
		}
		return Exists, zone, node
	}
	switch {
	case !inRanges:
		return NotInZone, "", Node{}
	case name == zone:
		return Exists, zone, Node{}
	}
	return NXDomain, zone, Node{}
}

// reverseNode returns the node of a reverse name: that of an address, or an empty
// non-terminal above one (RFC 8020), which may be outside of the ranges.
func (s *Snapshot) reverseNode(key string, isAddr bool) (Node, bool) {
	if !isAddr {
		return Node{}, s.addrs.below(key)
	}
	owners := s.addrs.get(key)
	if owners == nil {
		return Node{}, false
	}
	return Node{snapshot: s, owners: *owners, addr: prefix(key).Addr()}, true
}

// unloadedReverse returns the status of a reverse name before the zone is loaded. Without
// configured ranges, those of private addresses may be the cluster's.
func (s *Snapshot) unloadedReverse(key string, inRanges bool) Status {
	contains := func(p netip.Prefix) bool { return p.Overlaps(prefix(key)) && p.Bits() <= prefix(key).Bits() }
	if inRanges || len(s.config.Reverse) == 0 && slices.ContainsFunc(privateRanges, contains) {
		return Unknown
	}
	return NotInZone
}

// lookupNonAddress looks up a name in the reverse zones that is not the name of an address
// or of a range. It is NXDomain if a name above it is in the ranges.
func (s *Snapshot) lookupNonAddress(name fqdn.Name) (Status, fqdn.Name, Node) {
	for name != "" {
		_, name = name.Cut()
		key, _, ok := parseReverse(name)
		if !ok {
			continue
		}
		zone, inRanges := s.reverseZone(name, key)
		switch {
		case !inRanges:
			return NotInZone, "", Node{}
		case !s.loaded:
			return Unknown, "", Node{}
		}
		return NXDomain, zone, Node{}
	}
	return NotInZone, "", Node{}
}

// reverseZone returns the zone of a reverse name in the configured ranges, given its key:
// that of the range, or of a part of it if the range does not end at a label.
func (s *Snapshot) reverseZone(name fqdn.Name, key string) (fqdn.Name, bool) {
	perLabel := 8
	if key[0] == '6' {
		perLabel = 4
	}
	for _, p := range s.config.Reverse {
		if p.Bits() > prefix(key).Bits() || !p.Overlaps(prefix(key)) {
			continue
		}
		zoneLabels := (p.Bits() + perLabel - 1) / perLabel
		for range len(key) - 1 - zoneLabels {
			_, name = name.Cut()
		}
		return name, true
	}
	return "", false
}
