// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Verdict says whether a name exists.
type Verdict uint8

// The verdicts.
const (
	NotInZone Verdict = iota // the cluster says nothing about the name
	Unknown                  // the name may exist: the cluster is not known yet (SERVFAIL)
	NXDomain                 // neither the name nor any below it exists (NXDOMAIN)
	Exists                   // the name exists; it may own nothing of the type asked (NODATA)
)

// VersionTTL is the TTL of the version record, in seconds (specification 2.2).
const VersionTTL = 28800

// specVersion is that of the specification which the zone follows.
const specVersion = "1.1.0"

// Node is a name that exists, with what it owns. The zero Node owns nothing, as a
// name does that only has others below it.
type Node struct {
	V4, V6 []netip.Addr // A and AAAA, ascending; not to be changed
	Alias  fqdn.Name    // CNAME; the node then owns nothing else
	Text   string       // TXT
	Apex   bool         // SOA and NS

	snapshot    *Snapshot
	svc         *service // whose ports give SRV
	port, proto string   // "": every named port of svc
	owners      []owner  // PTR
	addr        netip.Addr
}

// Lookup looks up a name. The second result is the zone whose SOA record goes with a
// negative answer, and is empty when the verdict is NotInZone or Unknown.
func (s *Snapshot) Lookup(name fqdn.Name) (Verdict, fqdn.Name, Node) {
	below, ok := name.Within(s.config.Domain)
	if !ok {
		return s.findAddr(name)
	}
	if !s.loaded {
		return Unknown, "", Node{}
	}
	node, ok := s.findBelow(below)
	if !ok {
		return NXDomain, s.config.Domain, Node{}
	}
	return Exists, s.config.Domain, node
}

// maxDepth is the number of labels in the longest names below the domain:
// _port._proto.service.namespace.svc.
const maxDepth = 5

func (s *Snapshot) findBelow(below fqdn.Name) (Node, bool) {
	var labels [maxDepth]string // the outermost first
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
		return s.findService(path[1:])
	case "pod":
		return s.findPod(path[1:])
	case "dns":
		return s.findServer(path[1:])
	case "dns-version":
		return Node{Text: specVersion}, n == 1
	}
	return Node{}, false
}

func (s *Snapshot) findService(path []string) (Node, bool) {
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
	v := svc.look()
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
		v4, v6 := v.host(path[2])
		return Node{V4: v4, V6: v6}, len(v4)+len(v6) > 0
	case strings.HasPrefix(path[2], "_") && strings.HasPrefix(path[3], "_"):
		port, proto := path[3][1:], path[2][1:]
		return Node{snapshot: s, svc: svc, port: port, proto: proto}, port != "" && svc.hasPort(port, proto)
	}
	return Node{}, false
}

// service returns the Service of that name, nil if nothing is known of it.
func (s *Snapshot) service(namespace, name string) *service {
	var room [maxKey]byte
	return get(s.services, serviceKey(&room, namespace, name))
}

func (s *Snapshot) hasNamespace(name string) bool { return s.namespaces.get(name) != nil }

func (s *Snapshot) findPod(path []string) (Node, bool) {
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
		addr, ok := parseDashed(path[1])
		if !ok || !s.hasNamespace(path[0]) {
			return Node{}, false
		}
		if s.config.Pods == PodsVerified && s.pods.get(label(path[0])+addrKey(addr)) == nil {
			return Node{}, false
		}
		v4, v6 := families([]netip.Addr{addr})
		return Node{V4: v4, V6: v6}, true
	}
	return Node{}, false
}

// findServer finds dns.<zone> and ns.dns.<zone>, the server that the SOA record
// names: the Service in front of us, or else our own addresses.
func (s *Snapshot) findServer(path []string) (Node, bool) {
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
			v := svc.look()
			addrs = append(append(addrs, v.v4...), v.v6...)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	v4, v6 := families(slices.Compact(addrs))
	return Node{V4: v4, V6: v6}, true
}

// nameServers are the Services that have one of our addresses for an endpoint.
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

// ignorance are the ranges whose reverse names are not said to be absent, nor
// asked of others, before the cluster is known: RFC 1918, RFC 6598, RFC 4193.
var ignorance = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

func (s *Snapshot) findAddr(name fqdn.Name) (Verdict, fqdn.Name, Node) {
	key, whole, ok := parseReverse(name)
	if !ok {
		return s.findOddAddr(name)
	}
	if len(key) == 1 {
		return NotInZone, "", Node{} // in-addr.arpa and ip6.arpa themselves
	}
	zone, ours := s.reverseZone(name, key)
	if !s.loaded {
		inside := func(p netip.Prefix) bool { return p.Overlaps(prefix(key)) && p.Bits() <= prefix(key).Bits() }
		if ours || len(s.config.Reverse) == 0 && slices.ContainsFunc(ignorance, inside) {
			return Unknown, "", Node{}
		}
		return NotInZone, "", Node{}
	}
	if whole {
		if owners := s.addrs.get(key); owners != nil {
			if !ours {
				zone = name
			}
			return Exists, zone, Node{snapshot: s, owners: *owners, addr: prefix(key).Addr()}
		}
	}
	switch {
	case !whole && s.addrs.below(key): // RFC 8020, also above our ranges
		if !ours {
			zone = name
		}
		return Exists, zone, Node{}
	case !ours:
		return NotInZone, "", Node{}
	case name == zone:
		return Exists, zone, Node{}
	}
	return NXDomain, zone, Node{}
}

// findOddAddr is for names in the reverse zones that spell no address: absent when
// some name above them is in our ranges.
func (s *Snapshot) findOddAddr(name fqdn.Name) (Verdict, fqdn.Name, Node) {
	for name != "" {
		_, name = name.Cut()
		if key, _, ok := parseReverse(name); ok {
			if zone, ours := s.reverseZone(name, key); !ours {
				return NotInZone, "", Node{}
			} else if !s.loaded {
				return Unknown, "", Node{}
			} else {
				return NXDomain, zone, Node{}
			}
		}
	}
	return NotInZone, "", Node{}
}

// reverseZone returns the zone in which the reverse name of a key in our ranges
// lies: that of the range, or of its part when the range does not end at a label.
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
