// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// labelKey is a label in the keys of a tree. It starts with the length, as on the wire, so
// that no name is a prefix of another one.
func labelKey(s string) string { return string(byte(len(s))) + s }

// maxKey is the length of the longest serviceKey.
const maxKey = 2 + 2*(1+fqdn.MaxLabel)

// serviceKey returns the key of a Service, in buf: a hash, then the labels of namespace and
// name. Names have long common prefixes, and a lookup visits a tree node wherever two of
// them differ; two octets of a hash separate most of them at once.
func serviceKey(buf *[maxKey]byte, namespace, name string) []byte {
	key := buf[:2]
	for _, l := range [...]string{namespace, name} {
		key = append(append(key, byte(len(l))), l...)
	}
	hash := fnv.New32a()
	hash.Write(key[2:]) // never fails
	sum := hash.Sum32()
	binary.BigEndian.PutUint16(key, uint16(sum>>16^sum))
	return key
}

// addrLabel returns the label of an endpoint without a hostname, or of a pod: its address
// with dashes. A label must not end with a dash, so that an address that ends with "::"
// gets a 0.
func addrLabel(addr netip.Addr) string {
	var buf [40]byte
	return string(appendAddrLabel(buf[:0], addr))
}

func appendAddrLabel(b []byte, addr netip.Addr) []byte {
	start := len(b)
	b = addr.AppendTo(b)
	for i, c := range b[start:] {
		if c == '.' || c == ':' {
			b[start+i] = '-'
		}
	}
	if b[len(b)-1] == '-' {
		b = append(b, '0')
	}
	return b
}

// parseAddrLabel parses an address with dashes for dots or colons.
func parseAddrLabel(label string) (netip.Addr, bool) {
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
