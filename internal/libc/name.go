// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// parseLiteral reads a name that is an address, for which nobody is asked. It is
// not a good one if its zone is none.
func parseLiteral(name string) (a netip.Addr, literal, good bool) {
	if a, ok := resolvconf.ParseAddr(name); ok {
		return a, true, true
	}
	address, _, zoned := strings.Cut(name, "%")
	a, ok := resolvconf.ParseAddr(address)
	return a, ok && zoned && strings.Contains(address, ":"), false // "10.0.0.1%lo" is a name
}

// literal is the result for a name that is an address.
func (p Player) literal(a netip.Addr, good bool, family Family) Result {
	if p.Library == Glibc && family == IPv4 && a.Is4In6() { // an IPv4 address after all
		a = a.Unmap()
	}
	switch {
	case p.Library == Glibc && !family.wants(a):
		return Result{Error: AddrFamily}
	case !good || !family.wants(a):
		return Result{Error: NoName}
	}
	return Result{Addresses: []netip.Addr{a}}
}

// hosts looks name up in /etc/hosts, where glibc takes capitals for small
// letters. A name that has no address of the family there is asked of DNS.
func (p Player) hosts(name string, family Family) (found []netip.Addr, ok bool) {
	if p.Library == Glibc {
		name = strings.ToLower(name)
	}
	for _, a := range p.Hosts[name] {
		if family.wants(a) {
			found = append(found, a)
		}
	}
	return found, found != nil
}

// maxWire is the longest name in a message (RFC 1035 section 2.3.4).
const maxWire = 255

// question turns a name into that of a question, with its final dot. It is false
// for a name that does not fit into one: an empty label, one of more than 63
// bytes, more than 253 bytes in all. Nothing is sent then. A
// backslash escapes, for glibc and for package dns.
func question(name string) (string, bool) {
	rooted := dns.Fqdn(name)
	var wire [maxWire]byte
	_, err := dns.PackDomainName(rooted, wire[:], 0, nil, false)
	_, ok := dns.IsDomainName(name)
	return rooted, ok && err == nil
}

// isHostName tells whether glibc takes a name for that of a host (res_hnok):
// letters, digits, "-", "_" and dots, and no "-" at its start. The name that a
// program gives must be one, and so must the name found.
func isHostName(name string) bool {
	return !strings.HasPrefix(name, "-") && strings.IndexFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	}) < 0
}

// looksDotted tells whether glibc takes a name for an IPv4 address, be it one or
// not, where a program wants IPv4 alone (nss/digits_dots.c).
func looksDotted(name string) bool {
	return strings.Trim(name, "0123456789.") == "" && name != "" && name[0] != '.' && !strings.HasSuffix(name, ".")
}
