// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// lookupLiteral returns the result for a name that is an address, for which no query is
// sent.
func (s Simulator) lookupLiteral(name string, family Family) (result Result, literal bool) {
	a, valid := resolvconf.ParseAddr(name)
	literal = valid
	if s.Library == Go {
		var err error
		a, err = netip.ParseAddr(name)
		valid, literal = err == nil, err == nil
	} else if address, _, zoned := strings.Cut(name, "%"); !valid && zoned && strings.Contains(address, ":") {
		a, literal = resolvconf.ParseAddr(address) // with a zone that does not belong to it; "10.0.0.1%lo" is a name
	}
	if !literal {
		return Result{}, false
	}
	if a.Is4In6() && (s.Library == Glibc && family == IPv4 || s.Library == Go) {
		a = a.Unmap()
	}
	if s.Library == Go && family != Both { // LookupIP returns no zones
		a = a.WithZone("")
	}
	switch {
	case !valid && s.Library != Glibc:
		return Result{Error: NoName}, true
	case !family.contains(a):
		return Result{Error: s.Library.otherFamily()}, true
	case !valid:
		return Result{Error: NoName}, true
	}
	return Result{Addresses: []netip.Addr{a}}, true
}

// otherFamily returns the error for a literal address of another family, and the error of musl for a
// name without an address.
func (l Library) otherFamily() Error {
	switch l {
	case Glibc:
		return AddrFamily
	case Musl:
		return NoData
	case Go:
		return GoNoSuitableAddress
	default:
		return NoName
	}
}

// lookupHosts returns the addresses of name in /etc/hosts. glibc and Go ignore case there.
// A name without an address of the family is then looked up in DNS by glibc. In the other
// libraries the lookup ends with an error.
func (s Simulator) lookupHosts(name string, family Family) (result Result, found bool) {
	if !s.Library.isMusl() {
		name = strings.ToLower(name)
	}
	if base := strings.TrimSuffix(name, "."); s.Library == Go && strings.Contains(base, ".") {
		name = base
	}
	known := s.Hosts[name]
	for _, a := range known {
		if family.contains(a) {
			result.Addresses = append(result.Addresses, a)
		}
	}
	if result.Addresses == nil && len(known) > 0 && s.Library != Glibc {
		return Result{Error: s.Library.otherFamily()}, true
	}
	return result, result.Addresses != nil
}

// maxWire is the maximum length of a name in a message (RFC 1035 section 2.3.4).
const maxWire = 255

// questionName adds the final dot to a name. It returns false for a name that does not
// fit into a question: with an empty label, a label of more than 63 bytes, or more than
// 253 bytes. No query is sent for such a name. A backslash escapes, for glibc and for
// package dns.
func questionName(name string) (string, bool) {
	rooted := dns.Fqdn(name)
	var wire [maxWire]byte
	_, err := dns.PackDomainName(rooted, wire[:], 0, nil, false)
	_, ok := dns.IsDomainName(name)
	return rooted, ok && err == nil
}

// isHostName reports whether glibc accepts a name as a host name (res_hnok): letters,
// digits, "-", "_" and dots, without a leading "-". Both the name looked up and the name
// found must be host names.
func isHostName(name string) bool {
	return !strings.HasPrefix(name, "-") && strings.IndexFunc(name, func(r rune) bool { return r != '.' && isNotHostRune(r) }) < 0
}

// isNotHostRune reports whether a label of a host name cannot have r.
func isNotHostRune(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// isDottedDigits reports whether glibc parses a name as an IPv4 address, valid or not,
// if only IPv4 is requested (nss/digits_dots.c).
func isDottedDigits(name string) bool {
	return strings.Trim(name, "0123456789.") == "" && name != "" && name[0] != '.' && !strings.HasSuffix(name, ".")
}
