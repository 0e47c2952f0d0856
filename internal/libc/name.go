// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// parseLiteral parses a name that is an address, for which no query is sent. An address
// with a zone that does not belong to it is a literal, but not a valid one.
func parseLiteral(name string) (a netip.Addr, literal, valid bool) {
	if a, ok := resolvconf.ParseAddr(name); ok {
		return a, true, true
	}
	address, _, zoned := strings.Cut(name, "%")
	a, ok := resolvconf.ParseAddr(address)
	return a, ok && zoned && strings.Contains(address, ":"), false // "10.0.0.1%lo" is a name
}

// literal returns the result for a name that is an address.
func (s Simulator) literal(a netip.Addr, valid bool, family Family) Result {
	if s.Library == Glibc && family == IPv4 && a.Is4In6() {
		a = a.Unmap()
	}
	switch {
	case s.Library == Glibc && !family.contains(a):
		return Result{Error: AddrFamily}
	case !valid || !family.contains(a):
		return Result{Error: NoName}
	}
	return Result{Addresses: []netip.Addr{a}}
}

// lookupHosts returns the addresses of name in /etc/hosts. Only glibc ignores case there.
// A name without an address of the family is then looked up in DNS.
func (s Simulator) lookupHosts(name string, family Family) (list []netip.Addr) {
	if s.Library == Glibc {
		name = strings.ToLower(name)
	}
	for _, a := range s.Hosts[name] {
		if family.contains(a) {
			list = append(list, a)
		}
	}
	return list
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

// isHostName reports whether glibc accepts a name as that of a host (res_hnok): letters,
// digits, "-", "_" and dots, without a leading "-". Both the name looked up and the name
// found must be host names.
func isHostName(name string) bool {
	return !strings.HasPrefix(name, "-") && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	}) < 0
}

// isDottedDigits reports whether glibc parses a name as an IPv4 address, valid or not,
// if only IPv4 is requested (nss/digits_dots.c).
func isDottedDigits(name string) bool {
	return strings.Trim(name, "0123456789.") == "" && name != "" && name[0] != '.' && !strings.HasSuffix(name, ".")
}
