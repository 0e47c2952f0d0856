// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// specialUse are the zones of Config.LocalNames, and specialReverse the address ranges of its reverse zones.
var (
	specialUse = []fqdn.Name{
		localhost,
		"\x07invalid\x00",      // RFC 6761 section 6.4
		"\x04test\x00",         // RFC 6761 section 6.2
		"\x05onion\x00",        // RFC 7686
		"\x04home\x04arpa\x00", // RFC 8375
	}
	specialReverse = []string{ // RFC 6303 sections 4.2, 4.3, 4.5 and 4.6, RFC 9637
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "255.255.255.255/32",
		"::/128", "::1/128", "fe80::/10", "2001:db8::/32", "3fff::/20",
	}
)

// localhost has addresses, and so have all names below it (RFC 6761 section 6.3).
const localhost fqdn.Name = "\x09localhost\x00"

// loopbackNames are the reverse names with a PTR record for localhost.
var loopbackNames = []fqdn.Name{"\x011\x010\x010\x03127" + zone.InAddrArpa, "\x011" + fqdn.Name(strings.Repeat("\x010", 31)) + zone.IP6Arpa}

// localZones is the set of the apexes of the local zones. No name exists below an apex, except
// those of localhost and of the loopback addresses.
type localZones map[fqdn.Name]bool

func newLocalZones(on bool) localZones {
	zones := localZones{}
	if !on {
		return zones
	}
	for _, name := range specialUse {
		zones[name] = true
	}
	for _, r := range specialReverse {
		for _, name := range zone.ReverseZones(netip.MustParsePrefix(r)) {
			zones[name] = true
		}
	}
	return zones
}

// find returns the longest zone that contains the name, or "" if there is none. It compares the
// last label first, because that is enough for most names.
func (z localZones) find(name fqdn.Name) fqdn.Name {
	if len(z) == 0 || !slices.ContainsFunc(localTLDs[:], func(tld string) bool { return strings.HasSuffix(string(name), tld) }) {
		return ""
	}
	for name != "" && !z[name] {
		_, name = name.Cut()
	}
	return name
}

// localTLDs are the last labels of all local zones.
var localTLDs = [...]string{"\x04arpa\x00", string(localhost), "\x07invalid\x00", "\x04test\x00", "\x05onion\x00"}

// localTTL is the TTL of all records in local zones, in seconds (RFC 6303 section 3).
const localTTL = 10800

// localAnswer answers q from a local zone (RFC 6303 section 3): SOA and NS are at its apex.
func (q *query) localAnswer(apex fqdn.Name) answer {
	a := answer{source: fromServer, authoritative: true}
	owner := q.presentationName()
	isApex, exists := q.name == apex, q.name == apex || apex == localhost
	switch {
	case isApex && q.qtype == dns.TypeSOA:
		a.answers = []dns.RR{localSOA(owner, apex)}
	case isApex && q.qtype == dns.TypeNS:
		a.answers = []dns.RR{&dns.NS{Hdr: header(owner, dns.TypeNS, localTTL), Ns: apex.String()}}
	case apex == localhost && q.qtype == dns.TypeA:
		a.answers = []dns.RR{&dns.A{Hdr: header(owner, dns.TypeA, localTTL), A: net.IPv4(127, 0, 0, 1)}}
	case apex == localhost && q.qtype == dns.TypeAAAA:
		a.answers = []dns.RR{&dns.AAAA{Hdr: header(owner, dns.TypeAAAA, localTTL), AAAA: net.IPv6loopback}}
	}
	for _, name := range loopbackNames {
		if _, above := name.Within(q.name); above {
			exists = true // also an empty non-terminal
		}
		if name == q.name && q.qtype == dns.TypePTR {
			a.answers = []dns.RR{&dns.PTR{Hdr: header(owner, dns.TypePTR, localTTL), Ptr: localhost.String()}}
		}
	}
	if !exists {
		a.rcode = dns.RcodeNameError
	}
	if len(a.answers) == 0 {
		a.authority = []dns.RR{localSOA(apex.String(), apex)}
	}
	return a
}

// localSOA returns the SOA record of a local zone, with the values of RFC 6303 section 3.
func localSOA(owner string, apex fqdn.Name) *dns.SOA {
	return &dns.SOA{
		Hdr: header(owner, dns.TypeSOA, localTTL), Ns: apex.String(), Mbox: "nobody.invalid.",
		Serial: 1, Refresh: 3600, Retry: 1200, Expire: 604800, Minttl: localTTL,
	}
}
