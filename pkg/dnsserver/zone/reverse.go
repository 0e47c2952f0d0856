// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
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
