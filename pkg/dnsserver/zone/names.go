// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// label is a label in the keys of a tree: behind its length, as on the wire, so
// that no name is the beginning of another by accident.
func label(s string) string { return string(byte(len(s))) + s }

// maxKey is the length of the longest serviceKey.
const maxKey = 2 + 2*(1+fqdn.MaxLabel)

// serviceKey returns the key of a Service, in room: a hash, then namespace and name, each
// a label. Names are alike, and the way through the tree has a node wherever two of them
// part; of hashes two octets tell most apart.
func serviceKey(room *[maxKey]byte, namespace, name string) []byte {
	key := room[:2]
	for _, l := range [...]string{namespace, name} {
		key = append(append(key, byte(len(l))), l...)
	}
	hash := uint32(2166136261) // FNV-1a
	for _, c := range key[2:] {
		hash = (hash ^ uint32(c)) * 16777619
	}
	binary.BigEndian.PutUint16(key, uint16(hash>>16^hash))
	return key
}

// dashed is the label that an endpoint or a pod without a name has: its address,
// dots and colons as dashes. A label must not end with a dash, so that an address
// that ends with "::" gets a 0.
func dashed(addr netip.Addr) string {
	var room [40]byte
	text := addr.AppendTo(room[:0])
	for i, c := range text {
		if c == '.' || c == ':' {
			text[i] = '-'
		}
	}
	if text[len(text)-1] == '-' {
		text = append(text, '0')
	}
	return string(text)
}

// parseDashed reads an address with dashes for dots or colons.
func parseDashed(label string) (netip.Addr, bool) {
	sep := ":"
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		sep = "."
	}
	if strings.ContainsAny(label, ".:%") {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(label, "-", sep))
	return addr, err == nil
}

// The zones of reverse names, RFC 1035 section 3.5 and RFC 3596 section 2.5.
const (
	inAddrArpa fqdn.Name = "\x07in-addr\x04arpa\x00"
	ip6Arpa    fqdn.Name = "\x03ip6\x04arpa\x00"
)

// addrKey is an address as a key: the family, then an octet (IPv4) or a nibble
// (IPv6) for each label of its reverse name, the outermost label first.
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

// parseReverse reads what stands before in-addr.arpa or ip6.arpa into the
// beginning of an addrKey; whole is true when it is all of one. Names that spell
// no address are not ok.
func parseReverse(name fqdn.Name) (key string, whole, ok bool) {
	below, ok := name.Within(inAddrArpa)
	family, base, bits, size := byte('4'), 10, 8, 4
	if !ok {
		if below, ok = name.Within(ip6Arpa); !ok {
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
		// One spelling for each number: neither 007 nor +7.
		if err != nil || n == size || strconv.FormatUint(v, base) != l {
			return "", false, false
		}
		n++
		reversed[len(reversed)-n] = byte(v)
	}
	reversed[len(reversed)-n-1] = family
	return string(reversed[len(reversed)-n-1:]), n == size, true
}

// prefix is the range of addresses whose keys begin with key.
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
