// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The SOA record's times, in seconds (RFC 1035 section 3.3.13). Nobody transfers
// the zone; secondaries could live with these.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// maxAliases is the longest chain of CNAMEs that is given. One that comes back to
// itself is given once.
const maxAliases = 10

// minimalTTL is that of the answer to ANY, in seconds. It costs nothing to ask
// again, but nobody should.
const minimalTTL = 3600

// minimal is the answer to ANY (RFC 8482 section 4.2).
func minimal(owner string) dns.RR {
	return &dns.HINFO{Hdr: header(owner, dns.TypeHINFO, minimalTTL), Cpu: "RFC8482"}
}

// cluster answers from the zone; ok is false for names that are not in it.
func (s *Server) cluster(ctx context.Context, q *query) (a answer, ok bool) {
	return s.clusterAt(ctx, q, s.cfg.Zone.Snapshot())
}

// clusterAt answers from the zone as it was at one instant.
func (s *Server) clusterAt(ctx context.Context, q *query, snapshot *zone.Snapshot) (a answer, ok bool) {
	a = answer{source: fromZone, authoritative: true}
	owner, name := q.question().Name, q.name
	var seen []fqdn.Name // the aliases on the way
	for {
		verdict, apex, node := snapshot.Lookup(name)
		switch verdict {
		case zone.NotInZone:
			if len(seen) == 0 {
				return answer{}, false
			}
			return s.aliased(a, s.elsewhere(ctx, q.about(name, q.question().Qtype))), true
		case zone.Unknown:
			return failure(fromZone, dns.ExtendedErrorCodeNotReady, "the cluster's names are not loaded yet"), true
		case zone.NXDomain:
			a.rcode = dns.RcodeNameError
			a.authority = []dns.RR{s.soa(apex, snapshot)}
			return a, true
		}
		qtype := q.question().Qtype
		if node.Alias != "" && qtype != dns.TypeANY {
			a.answer = append(a.answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: node.Alias.String()})
			seen = append(seen, name)
			if qtype == dns.TypeCNAME || len(seen) == maxAliases || slices.Contains(seen, node.Alias) {
				return a, true
			}
			name, owner = node.Alias, node.Alias.String()
			continue
		}
		records, glue := s.records(owner, qtype, node, snapshot)
		a.answer, a.additional = append(a.answer, records...), glue
		if len(records) == 0 {
			a.authority = []dns.RR{s.soa(apex, snapshot)}
		}
		return a, true
	}
}

// aliased puts what others say of an alias' target behind the alias.
func (s *Server) aliased(a, target answer) answer {
	if target.pending {
		return target
	}
	if target.rcode == dns.RcodeServerFailure || target.rcode == dns.RcodeRefused {
		return failure(target.source, dns.ExtendedErrorCodeNoReachableAuthority, "the target of the external name was not answered")
	}
	a.rcode, a.truncated = target.rcode, target.truncated // RFC 6604 section 3: the rcode is that of the last name
	a.answer = append(a.answer, target.answer...)
	a.authority, a.extended = target.authority, target.extended
	return a
}

// records returns what a node owns of a type, and the addresses that go with it.
func (s *Server) records(owner string, qtype uint16, n zone.Node, at *zone.Snapshot) (records, glue []dns.RR) {
	switch qtype {
	case dns.TypeA:
		return s.addresses(owner, rotated(n.V4)), nil
	case dns.TypeAAAA:
		return s.addresses(owner, rotated(n.V6)), nil
	case dns.TypeTXT:
		if n.Text != "" {
			return []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, zone.VersionTTL), Txt: []string{n.Text}}}, nil
		}
	case dns.TypePTR:
		for _, name := range n.PTR() {
			records = append(records, &dns.PTR{Hdr: header(owner, dns.TypePTR, s.cfg.TTL), Ptr: name.String()})
		}
	case dns.TypeSRV:
		return s.services(owner, n.SRV())
	case dns.TypeSOA:
		if n.Apex {
			soa := s.soa(s.cfg.Domain, at)
			soa.Hdr.Name = owner
			return []dns.RR{soa}, nil
		}
	case dns.TypeNS:
		for _, server := range n.NS() {
			target := server.Name.String()
			records = append(records, &dns.NS{Hdr: header(owner, dns.TypeNS, s.cfg.TTL), Ns: target})
			glue = append(glue, s.addresses(target, slices.Concat(server.V4, server.V6))...)
		}
	case dns.TypeANY: // RFC 8482 section 4.2
		return []dns.RR{minimal(owner)}, nil
	}
	return records, glue
}

func (s *Server) services(owner string, list []zone.SRV) (records, glue []dns.RR) {
	last := fqdn.Name("")
	for _, r := range list {
		target := r.Target.String()
		records = append(records, &dns.SRV{Hdr: header(owner, dns.TypeSRV, s.cfg.TTL), Weight: r.Weight, Port: r.Port, Target: target})
		if r.Target != last { // targets come in order
			glue = append(glue, s.addresses(target, slices.Concat(r.V4, r.V6))...)
		}
		last = r.Target
	}
	return records, glue
}

func (s *Server) addresses(owner string, addrs []netip.Addr) []dns.RR {
	records := make([]dns.RR, 0, len(addrs))
	for _, addr := range addrs {
		if addr.Is4() {
			records = append(records, &dns.A{Hdr: header(owner, dns.TypeA, s.cfg.TTL), A: addr.AsSlice()})
		} else {
			records = append(records, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA, s.cfg.TTL), AAAA: addr.AsSlice()})
		}
	}
	return records
}

// rotated returns the addresses from a random one on: most clients take the first.
func rotated(addrs []netip.Addr) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	i := rand.IntN(len(addrs))
	return slices.Concat(addrs[i:], addrs[:i])
}

// staleDenial is the longest time for which what an old snapshot lacks is called
// absent, in seconds.
const staleDenial = 5

// denialTTL is how long what the cluster lacks may be called absent, in seconds.
func (s *Server) denialTTL(at *zone.Snapshot) uint32 {
	if at.StaleSince().IsZero() {
		return s.cfg.TTL
	}
	return min(s.cfg.TTL, staleDenial)
}

// soa is the SOA record of a zone of ours. Its minimum is the time for which a
// negative answer may be kept (RFC 2308 section 4).
func (s *Server) soa(apex fqdn.Name, at *zone.Snapshot) *dns.SOA {
	return &dns.SOA{
		Hdr:     header(apex.String(), dns.TypeSOA, s.cfg.TTL),
		Ns:      zone.PrimaryName(s.cfg.Domain).String(),
		Mbox:    "hostmaster." + s.cfg.Domain.String(),
		Serial:  at.Serial(),
		Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: s.denialTTL(at),
	}
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}
