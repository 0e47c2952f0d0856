// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"iter"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// ReverseZones returns the reverse zones of a range of addresses. A range that does not end at
// a label has several, at most 128.
func ReverseZones(p netip.Prefix) []fqdn.Name {
	base, perLabel, radix := inAddrArpa, 8, 10
	if p.Addr().Is6() {
		base, perLabel, radix = ip6Arpa, 4, 16
	}
	octets := p.Masked().Addr().AsSlice()
	labels := reverseLabels(p)
	name := base
	for i := range labels - 1 {
		name = fqdn.Join(name, strconv.FormatUint(uint64(digit(octets, i, perLabel)), radix))
	}
	if labels == 0 {
		return []fqdn.Name{base}
	}
	first := digit(octets, labels-1, perLabel)
	var zones []fqdn.Name
	for i := range 1 << (labels*perLabel - p.Bits()) {
		zones = append(zones, fqdn.Join(name, strconv.FormatUint(uint64(int(first)+i), radix)))
	}
	return zones
}

// digit returns the i-th group of bits of an address: an octet, or a nibble.
func digit(octets []byte, i, bits int) byte {
	if bits == 8 {
		return octets[i]
	}
	return octets[i/2] >> (4 * (1 - i%2)) & 15
}

// maxNetworks is the number of networks after which Networks stops: anyone who may create
// EndpointSlices can add others.
const maxNetworks = 8

// Networks returns the networks that addresses show, at most maxNetworks, to suggest values for
// Config.Reverse: the common prefix of the addresses in each /12, at most /16, which is a reverse zone. For
// IPv6 in each /48, at most /64. The ranges of Services and pods have rarely less than 12 bits.
func Networks(addrs iter.Seq[netip.Addr]) (found []netip.Prefix) {
	for addr := range addrs {
		if len(found) == maxNetworks {
			break
		}
		found = addNetwork(found, addr)
	}
	slices.SortFunc(found, netip.Prefix.Compare)
	return found
}

func addNetwork(found []netip.Prefix, addr netip.Addr) []netip.Prefix {
	shortest, longest := 12, 16
	if addr.Is6() {
		shortest, longest = 48, 64
	}
	for i, p := range found {
		if n := min(commonBits(p.Addr(), addr), p.Bits()); p.Addr().Is6() == addr.Is6() && n >= shortest {
			found[i] = netip.PrefixFrom(addr, n).Masked()
			return found
		}
	}
	return append(found, netip.PrefixFrom(addr, longest).Masked())
}

// commonBits returns the length of the common prefix of two addresses of one family.
func commonBits(a, b netip.Addr) (n int) {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range min(len(x), len(y)) {
		if diff := x[i] ^ y[i]; diff != 0 {
			return n + bits.LeadingZeros8(diff)
		}
		n += 8
	}
	return n
}

// ClusterIPs yields the addresses of Services.
func (s *Snapshot) ClusterIPs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for svc := range s.Services() {
			for _, addr := range svc.ClusterIPs {
				if !yield(addr) {
					return
				}
			}
		}
	}
}

// EndpointAddrs yields the addresses of endpoints, with repetitions.
func (s *Snapshot) EndpointAddrs() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for slice := range s.EndpointSlices() {
			for _, e := range slice.Endpoints {
				if !yield(e.Addr) {
					return
				}
			}
		}
	}
}
