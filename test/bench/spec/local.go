// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"net"

	"github.com/miekg/dns"
)

// localZones are the zones that the server answers itself: RFC 6761, RFC 7686, RFC 8375, and
// the reverse zones of RFC 6303 and RFC 9637 without those of private addresses.
var localZones = []string{
	"localhost.", "invalid.", "test.", "onion.", "home.arpa.", "0.in-addr.arpa.", "127.in-addr.arpa.",
	"254.169.in-addr.arpa.", "2.0.192.in-addr.arpa.",
	"100.51.198.in-addr.arpa.", "113.0.203.in-addr.arpa.", "255.255.255.255.in-addr.arpa.",
	"8.e.f.ip6.arpa.", "9.e.f.ip6.arpa.", "a.e.f.ip6.arpa.", "b.e.f.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "0.f.f.f.3.ip6.arpa.",
}

// LocalZone returns the zone of a name, in lower case, that the server answers itself, or "".
func LocalZone(name string) string {
	for _, zone := range localZones {
		if dns.IsSubDomain(zone, name) {
			return zone
		}
	}
	return ""
}

// localAnswer completes m, the reply to a query for a name in a local zone. The generated
// questions are for no loopback address.
func localAnswer(m *dns.Msg, name, zone string, qtype uint16) {
	header := dns.RR_Header{Name: name, Rrtype: qtype, Class: dns.ClassINET, Ttl: 10800}
	soa := &dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 10800},
		Ns: zone, Mbox: "nobody.invalid.",
		Serial: 1, Refresh: 3600, Retry: 1200, Expire: 604800, Minttl: 10800}
	switch {
	case zone == "localhost." && qtype == dns.TypeA:
		m.Answer = append(m.Answer, &dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)})
	case zone == "localhost." && qtype == dns.TypeAAAA:
		m.Answer = append(m.Answer, &dns.AAAA{Hdr: header, AAAA: net.IPv6loopback})
	case name == zone && qtype == dns.TypeSOA:
		m.Answer = append(m.Answer, soa)
	case name == zone && qtype == dns.TypeNS:
		m.Answer = append(m.Answer, &dns.NS{Hdr: header, Ns: zone})
	default:
		if name != zone && zone != "localhost." {
			m.Rcode = dns.RcodeNameError
		}
		m.Ns = []dns.RR{soa}
	}
}
