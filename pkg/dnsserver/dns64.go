// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// ParseDNS64Prefix parses a prefix for IPv6 addresses that contain IPv4 addresses (RFC 6052 section 2.2).
func ParseDNS64Prefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4() || p.Addr().Is4In6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) {
		return p, fmt.Errorf("%q: want an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits, such as 64:ff9b::/96", text)
	}
	if p.Masked().Addr().As16()[unusedOctet] != 0 {
		return p, fmt.Errorf("%q: bits 64 to 71 must be 0", text)
	}
	return p.Masked(), nil
}

// unusedOctet is the octet of an IPv6 address that is 0 and separates the octets of an IPv4 address.
const unusedOctet = 8

// embed returns the IPv6 address for an IPv4 address.
func embed(prefix netip.Prefix, v4 net.IP) net.IP {
	v6, at := prefix.Addr().As16(), prefix.Bits()/8
	for _, octet := range v4.To4() {
		if at == unusedOctet {
			at++
		}
		v6[at] = octet
		at++
	}
	return v6[:]
}

// translates reports whether AAAA records for q may be made from A records. A client that validates gets what is signed
// (RFC 6147 section 5.5).
func (s *Server) translates(q *query) bool {
	return q.qtype == dns.TypeAAAA && s.cfg.DNS64Prefix.IsValid() && !(q.do && q.flags&flagCD != 0)
}

// translate returns r, the result for q of type AAAA, or if it has no AAAA records, that for type A as AAAA records.
func (s *Server) translate(ctx context.Context, q *query, r result) result {
	if r.wait == nil {
		if lacksAAAA(r.answer) {
			return s.translateA(ctx, q, synthesizedTTL(r.answer))
		}
		return r
	}
	next := result{kind: r.kind, wait: func(ctx context.Context) answer {
		v4 := s.translate(ctx, q, result{answer: r.wait(ctx)})
		a := v4.await(ctx)
		if a.failed() && v4.stale != nil {
			return v4.stale()
		}
		return a
	}}
	if r.stale != nil {
		next.stale = func() answer {
			a := r.stale()
			switch v4 := s.translate(ctx, q, result{answer: a}); {
			case v4.wait == nil:
				return v4.answer
			case v4.stale != nil:
				return v4.stale()
			}
			return a
		}
	}
	return next
}

// lacksAAAA reports whether an answer has no AAAA records. A failure counts as such an answer (RFC 6147 section 5.1.2),
// and IPv4-mapped addresses do not count (section 5.1.4).
func lacksAAAA(a answer) bool {
	if a.rcode == dns.RcodeNameError || a.refused != notRefused || a.dropped {
		return false
	}
	a = a.withRecords()
	isUsable := func(rr dns.RR) bool {
		v6, ok := rr.(*dns.AAAA)
		return ok && v6.AAAA.To4() == nil
	}
	return !a.truncated && !slices.ContainsFunc(a.answers, isUsable)
}

// maxSynthesizedTTL is the largest TTL of AAAA records from A records, in seconds, if it is not known how long their
// absence may be cached (RFC 6147 section 5.1.7).
const maxSynthesizedTTL = 600

// synthesizedTTL returns the largest TTL of the AAAA records for an answer without them: that of its SOA record.
func synthesizedTTL(a answer) uint32 {
	for _, soa := range firstOfType(a.withRecords().authority, dns.TypeSOA, 1) {
		return soa.Header().Ttl
	}
	return maxSynthesizedTTL
}

// translateA returns the result for q with type A, as AAAA records with at most this TTL.
func (s *Server) translateA(ctx context.Context, q *query, ttl uint32) result {
	v4 := q.clone()
	v4.qtype = dns.TypeA
	binary.BigEndian.PutUint16(v4.question[len(v4.question)-questionFixedLen:], v4.qtype)
	owner := v4.presentationName()
	r, ok := s.expandSearch(ctx, v4)
	if !ok {
		r = s.answerName(ctx, v4, nil)
	}
	return r.then(func(a answer) answer {
		a = a.withRecords()
		a.authentic = false // the AAAA records are not signed
		a.answers = slices.Clone(withOwnerCase(a.answers, owner))
		for i, rr := range a.answers {
			if v4, ok := rr.(*dns.A); ok {
				h := header(v4.Hdr.Name, dns.TypeAAAA, min(v4.Hdr.Ttl, ttl))
				a.answers[i] = &dns.AAAA{Hdr: h, AAAA: embed(s.cfg.DNS64Prefix, v4.A)}
			}
		}
		return a
	})
}
