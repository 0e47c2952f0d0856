// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The zones of reverse names, RFC 1035 section 3.5 and RFC 3596 section 2.5.
const (
	InAddrArpa fqdn.Name = "\x07in-addr\x04arpa\x00"
	IP6Arpa    fqdn.Name = "\x03ip6\x04arpa\x00"

	arpa = "\x04arpa\x00" // the end of all reverse names; other names are not parsed
)

// addrKey returns the key of an address: the family, then an octet (IPv4) or a nibble (IPv6)
// for each label of the reverse name, the outermost label first.
func addrKey(addr netip.Addr) string {
	if addr.Is4() {
		b := addr.As4()
		return "4" + string(b[:])
	}
	key := make([]byte, 1, 33)
	key[0] = '6'
	for _, b := range addr.As16() {
		key = append(key, b>>4, b&15)
	}
	return string(key)
}

// parseReverse parses a reverse name into an addrKey, or into the prefix of one, with
// isAddr false. It reports false for any other name.
func parseReverse(name fqdn.Name) (key string, isAddr, ok bool) {
	below, ok := name.Within(InAddrArpa)
	family, base, bits, size := byte('4'), 10, 8, 4
	if !ok {
		if below, ok = name.Within(IP6Arpa); !ok {
			return "", false, false
		}
		family, base, bits, size = '6', 16, 4, 32
	}
	var reversed [33]byte
	n := 0
	for below != "" {
		var l string
		l, below = below.Cut()
		v, err := strconv.ParseUint(l, base, bits)
		// Only the canonical form: neither 007 nor +7.
		if err != nil || n == size || strconv.FormatUint(v, base) != l {
			return "", false, false
		}
		n++
		reversed[len(reversed)-n] = byte(v)
	}
	reversed[len(reversed)-n-1] = family
	return string(reversed[len(reversed)-n-1:]), n == size, true
}

// prefix returns the range of addresses whose keys start with key.
func prefix(key string) netip.Prefix {
	if key[0] == '4' {
		var b [4]byte
		copy(b[:], key[1:])
		return netip.PrefixFrom(netip.AddrFrom4(b), 8*(len(key)-1))
	}
	var b [16]byte
	for i := range len(key) - 1 {
		b[i/2] |= key[i+1] << (4 * (1 - i%2))
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), 4*(len(key)-1))
}

// ReverseZones returns the reverse zones of a range of addresses. A range that does not end at
// a label has several, at most 128.
func ReverseZones(p netip.Prefix) []fqdn.Name {
	base, perLabel, radix := InAddrArpa, 8, 10
	if p.Addr().Is6() {
		base, perLabel, radix = IP6Arpa, 4, 16
	}
	labels := addrKey(p.Masked().Addr())[1 : 1+reverseLabels(p)]
	if labels == "" {
		return []fqdn.Name{base}
	}
	last := len(labels) - 1
	for _, label := range []byte(labels[:last]) {
		base = fqdn.Join(base, strconv.FormatUint(uint64(label), radix))
	}
	var zones []fqdn.Name
	for i := range 1 << (len(labels)*perLabel - p.Bits()) {
		zones = append(zones, fqdn.Join(base, strconv.FormatUint(uint64(int(labels[last])+i), radix)))
	}
	return zones
}

// maxNetworks is the number of networks after which Networks ignores others: anyone who may create
// EndpointSlices can add some.
const maxNetworks = 8

// Networks returns the networks of Services and those of endpoints, at most maxNetworks of each, to suggest
// values for Config.Reverse: the common prefix of the addresses in each /12, at most /16, which is a reverse
// zone. For IPv6 in each /48, at most /64. The ranges of Services and pods have rarely less than 12 bits.
func (s *Snapshot) Networks() (services, endpoints []netip.Prefix) {
	for svc := range s.Services() {
		for _, addr := range svc.ClusterIPs {
			services = addNetwork(services, addr)
		}
	}
	for slice := range s.EndpointSlices() {
		for _, e := range slice.Endpoints {
			endpoints = addNetwork(endpoints, e.Addr)
		}
	}
	slices.SortFunc(services, netip.Prefix.Compare)
	slices.SortFunc(endpoints, netip.Prefix.Compare)
	return services, endpoints
}

func addNetwork(found []netip.Prefix, addr netip.Addr) []netip.Prefix {
	shortest, longest := 12, 16
	if addr.Is6() {
		shortest, longest = 48, 64
	}
	if len(found) == maxNetworks {
		return found
	}
	for i, p := range found {
		for n := p.Bits(); n >= shortest; n-- {
			if wider := netip.PrefixFrom(p.Addr(), n); wider.Contains(addr) {
				found[i] = wider.Masked()
				return found
			}
		}
	}
	return append(found, netip.PrefixFrom(addr, longest).Masked())
}

// lookupReverse looks up a name outside of the domain.
func (s *Snapshot) lookupReverse(name fqdn.Name) (Status, fqdn.Name, Node) {
	if !strings.HasSuffix(string(name), arpa) {
		return NotInZone, "", Node{}
	}
	key, isAddr, isReverse := parseReverse(name)
	// The name of neither an address nor a range is NXDomain if a name above it is in the ranges.
	above, ok := name, isReverse
	for !ok && above != "" && len(s.config.Reverse) > 0 {
		_, above = above.Cut()
		key, _, ok = parseReverse(above)
	}
	if !ok {
		return NotInZone, "", Node{}
	}
	var owners *owner
	if isAddr {
		owners = s.addrs.get(key)
	}
	node := Node{snapshot: s, owners: owners, addr: prefix(key).Addr()}
	zone, inRanges := s.reverseZone(above, key)
	switch {
	case inRanges && !s.loaded:
		return Unknown, zone, Node{}
	case inRanges && !isReverse:
		return NXDomain, zone, Node{}
	case inRanges:
		node.Apex = name == zone
		// A range with addresses is an empty non-terminal (RFC 8020).
		if !node.Apex && owners == nil && (isAddr || !s.addrs.below(key)) {
			return NXDomain, zone, Node{}
		}
		return Exists, zone, node
	case !isAddr || len(s.config.Reverse) > 0:
	case !s.loaded && slices.ContainsFunc(privateRanges, func(p netip.Prefix) bool { return p.Contains(node.addr) }):
		return Unknown, name, Node{}
	case s.loaded && owners != nil:
		return Exists, name, node
	}
	return NotInZone, "", Node{}
}

// reverseZone returns the zone of a reverse name in the configured ranges, given its key: that
// of the longest range, or of a part of it if the range does not end at a label.
func (s *Snapshot) reverseZone(name fqdn.Name, key string) (fqdn.Name, bool) {
	longest := -1 // labels of the zone below in-addr.arpa or ip6.arpa
	for _, p := range s.config.Reverse {
		if p.Bits() <= prefix(key).Bits() && p.Overlaps(prefix(key)) {
			longest = max(longest, reverseLabels(p))
		}
	}
	if longest < 0 {
		return "", false
	}
	for range len(key) - 1 - longest {
		_, name = name.Cut()
	}
	return name, true
}

// reverseLabels returns the number of labels below in-addr.arpa or ip6.arpa in the names of
// the reverse zones of a range.
func reverseLabels(p netip.Prefix) int {
	perLabel := 8
	if p.Addr().Is6() {
		perLabel = 4
	}
	return (p.Bits() + perLabel - 1) / perLabel
}

// privateRanges are the ranges of private addresses (RFC 1918, RFC 6598, RFC 4193). Before
// the zone is loaded, the reverse names of their addresses are neither NXDomain nor forwarded.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}
