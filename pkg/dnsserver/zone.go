// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The times of SOA records, in seconds (RFC 1035 section 3.3.13). Nothing uses them, because
// zone transfers are refused.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// maxAliases is the longest chain of CNAMEs in an answer. A loop is followed once.
const maxAliases = 10

// minimalTTL is the TTL of the answer to ANY, in seconds. No client depends on that answer,
// so it may be cached for long.
const minimalTTL = 3600

// minimalHINFO returns the answer to ANY (RFC 8482 section 4.2).
func minimalHINFO(owner string) dns.RR {
	return &dns.HINFO{Hdr: header(owner, dns.TypeHINFO, minimalTTL), Cpu: "RFC8482"}
}

// answerFromZone answers the cluster's names. ok is false for all others.
func (s *Server) answerFromZone(ctx context.Context, q *query, buf []byte) (r result, ok bool) {
	snapshot := s.cfg.Zone.Snapshot()
	status, apex, node := snapshot.Lookup(q.name)
	if status == zone.NotInZone {
		return result{}, false
	}
	if a := s.zoneWire(q, buf, snapshot, status, apex, &node); a.wire != nil {
		return result{answer: a}, true
	}
	return s.zoneRecords(ctx, q, snapshot)
}

// zoneWire is the fast path for the most frequent answers: addresses, and negative answers. It
// returns them in wire form. The wire of the answer is nil for all others, and if the reply
// is too long.
func (s *Server) zoneWire(q *query, buf []byte, snapshot *zone.Snapshot, status zone.Status, apex fqdn.Name, node *zone.Node) answer {
	a := answer{source: fromZone}
	switch {
	case status == zone.NXDomain:
		a.rcode = dns.RcodeNameError
		a.wire = s.denial(q, buf, a.rcode, apex, snapshot)
	case status != zone.Exists || node.Alias != "" || q.qtype != dns.TypeA && q.qtype != dns.TypeAAAA:
	default:
		addrs := node.V4
		if q.qtype == dns.TypeAAAA {
			addrs = node.V6
		}
		if len(addrs) == 0 {
			a.wire = s.denial(q, buf, a.rcode, apex, snapshot)
		} else {
			a.wire = s.addressReply(q, buf, addrs)
		}
	}
	return a
}

// pointerLen is the length of a compressed name, in octets.
const pointerLen = 2

// appendPointer appends a name that begins at an offset of the message (RFC 1035 section
// 4.1.4).
func appendPointer(b []byte, offset int) []byte {
	return binary.BigEndian.AppendUint16(b, 0xC000|uint16(offset))
}

// appendFixed appends the part of a record between owner name and data: type, class, TTL and
// length of the data.
func appendFixed(b []byte, rrtype uint16, ttl uint32, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, rrtype)
	b = binary.BigEndian.AppendUint16(b, dns.ClassINET)
	b = binary.BigEndian.AppendUint32(b, ttl)
	return binary.BigEndian.AppendUint16(b, uint16(length))
}

// addressReply returns the reply with all addresses, rotated, or nil if it is too long.
func (s *Server) addressReply(q *query, buf []byte, addrs []netip.Addr) []byte {
	length := addrs[0].BitLen() / 8
	if headerLen+len(q.question)+len(addrs)*(pointerLen+recordFixedLen+length) > q.maxLen(&answer{}) {
		return nil
	}
	b := q.startReply(buf, flagAA, dns.RcodeSuccess)
	first := 0
	if len(addrs) > 1 {
		first = rand.IntN(len(addrs))
	}
	for i := range addrs {
		octets := addrs[(first+i)%len(addrs)].As16()
		b = appendPointer(b, headerLen)
		b = appendFixed(b, q.qtype, s.cfg.TTL, length)
		b = append(b, octets[16-length:]...)
	}
	binary.BigEndian.PutUint16(b[6:], uint16(len(addrs)))
	return b
}

// denial returns the reply with the SOA record of the zone and no answer (RFC 2308
// section 2), or nil if it is too long.
func (s *Server) denial(q *query, buf []byte, rcode int, apex fqdn.Name, snapshot *zone.Snapshot) []byte {
	const (
		hostmaster = "\x0ahostmaster"
		soaTimes   = 5 * 4 // serial, refresh, retry, expire and minimum
	)
	if headerLen+len(q.question)+pointerLen+recordFixedLen+len(s.primary)+len(hostmaster)+pointerLen+soaTimes > q.maxLen(&answer{}) {
		return nil
	}
	b := q.startReply(buf, flagAA, rcode)
	apexAt := headerLen + len(q.name) - len(apex)
	b = appendPointer(b, apexAt)
	b = appendFixed(b, dns.TypeSOA, s.cfg.TTL, 0)
	data := len(b)
	domainAt := apexAt
	if domain := s.cfg.Domain; apex == domain {
		b = append(b, s.primary[:len(s.primary)-len(domain)]...)
		b = appendPointer(b, domainAt)
	} else {
		b = append(b, s.primary...)
		domainAt = len(b) - len(domain)
	}
	b = append(b, hostmaster...)
	b = appendPointer(b, domainAt)
	for _, n := range [...]uint32{snapshot.Serial(), soaRefresh, soaRetry, soaExpire, s.denialTTL(snapshot)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	binary.BigEndian.PutUint16(b[data-2:], uint16(len(b)-data))
	binary.BigEndian.PutUint16(b[8:], 1)
	return b
}

// zoneRecords answers with records from one snapshot of the zone. It follows aliases, even to
// targets outside the zone. ok is false for names that are not in the zone.
func (s *Server) zoneRecords(ctx context.Context, q *query, snapshot *zone.Snapshot) (r result, ok bool) {
	a := answer{source: fromZone, authoritative: true}
	owner, name := q.owner(), q.name
	var seen []fqdn.Name // the aliases that were followed
	for {
		status, apex, node := snapshot.Lookup(name)
		switch status {
		case zone.NotInZone:
			if len(seen) == 0 {
				return result{}, false
			}
			return s.forward(ctx, q.subquery(name, q.qtype), nil).then(a.withTarget), true
		case zone.Unknown:
			return result{answer: failure(fromZone, dns.ExtendedErrorCodeNotReady, "the cluster's names are not loaded yet")}, true
		case zone.NXDomain:
			a.rcode = dns.RcodeNameError
			a.authority = []dns.RR{s.soa(apex, snapshot)}
			return result{answer: a}, true
		}
		if node.Alias != "" && q.qtype != dns.TypeANY {
			a.answer = append(a.answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: node.Alias.String()})
			seen = append(seen, name)
			if q.qtype == dns.TypeCNAME || len(seen) == maxAliases || slices.Contains(seen, node.Alias) {
				return result{answer: a}, true
			}
			name, owner = node.Alias, node.Alias.String()
			continue
		}
		records, glue := s.records(owner, q, node, snapshot)
		a.answer, a.additional = append(a.answer, records...), glue
		if len(records) == 0 {
			a.authority = []dns.RR{s.soa(apex, snapshot)}
		}
		return result{answer: a}, true
	}
}

// withTarget returns a, which has the CNAME records, with the answer of another server for
// their target.
func (a answer) withTarget(target answer) answer {
	target = target.withRecords()
	if target.rcode == dns.RcodeServerFailure || target.rcode == dns.RcodeRefused {
		return failure(target.source, dns.ExtendedErrorCodeNoReachableAuthority, "no server answered for the target of the ExternalName Service")
	}
	a.rcode, a.truncated = target.rcode, target.truncated // RFC 6604 section 3: the rcode is that of the last name
	a.answer = append(a.answer, target.answer...)
	a.authority, a.extended = target.authority, target.extended
	return a
}

// records returns the records of a name n of the query's type, and the address records of
// their targets.
func (s *Server) records(owner string, q *query, n zone.Node, snapshot *zone.Snapshot) (records, glue []dns.RR) {
	switch q.qtype {
	case dns.TypeA:
		return s.addressRecords(owner, rotate(n.V4)), nil
	case dns.TypeAAAA:
		return s.addressRecords(owner, rotate(n.V6)), nil
	case dns.TypeTXT:
		if n.Text != "" {
			return []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, zone.VersionTTL), Txt: []string{n.Text}}}, nil
		}
	case dns.TypePTR:
		for _, name := range n.PTR() {
			records = append(records, &dns.PTR{Hdr: header(owner, dns.TypePTR, s.cfg.TTL), Ptr: name.String()})
		}
	case dns.TypeSRV:
		return s.srvRecords(owner, n.SRV(), q.maxRecords()+1)
	case dns.TypeSOA:
		if n.Apex {
			soa := s.soa(s.cfg.Domain, snapshot)
			soa.Hdr.Name = owner
			return []dns.RR{soa}, nil
		}
	case dns.TypeNS:
		for _, server := range n.NS() {
			target := server.Name.String()
			records = append(records, &dns.NS{Hdr: header(owner, dns.TypeNS, s.cfg.TTL), Ns: target})
			glue = append(glue, s.addressRecords(target, slices.Concat(server.V4, server.V6))...)
		}
	case dns.TypeANY: // RFC 8482 section 4.2
		return []dns.RR{minimalHINFO(owner)}, nil
	}
	return records, glue
}

// srvRecords returns at most limit SRV records, and the address records of their targets. Only
// a part of a large set fits into a UDP reply, and building the others takes milliseconds.
func (s *Server) srvRecords(owner string, list []zone.SRV, limit int) (records, glue []dns.RR) {
	list = list[:min(len(list), limit)]
	last := fqdn.Name("")
	for _, r := range list {
		target := r.Target.String()
		records = append(records, &dns.SRV{Hdr: header(owner, dns.TypeSRV, s.cfg.TTL), Weight: r.Weight, Port: r.Port, Target: target})
		if r.Target != last { // the list is sorted by target
			glue = append(glue, s.addressRecords(target, slices.Concat(r.V4, r.V6))...)
		}
		last = r.Target
	}
	return records, glue
}

func (s *Server) addressRecords(owner string, addrs []netip.Addr) []dns.RR {
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

// rotate returns the addresses, rotated to begin with a random one: most clients use the first.
func rotate(addrs []netip.Addr) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	i := rand.IntN(len(addrs))
	return slices.Concat(addrs[i:], addrs[:i])
}

// maxStaleDenialTTL is the longest negative TTL while the zone is stale, in seconds.
const maxStaleDenialTTL = 5

// denialTTL returns the negative TTL of the zone, in seconds.
func (s *Server) denialTTL(snapshot *zone.Snapshot) uint32 {
	if snapshot.StaleSince().IsZero() {
		return s.cfg.TTL
	}
	return min(s.cfg.TTL, maxStaleDenialTTL)
}

// soa returns the SOA record of a zone that this server is authoritative for. Its minimum
// is the negative TTL (RFC 2308 section 4).
func (s *Server) soa(apex fqdn.Name, snapshot *zone.Snapshot) *dns.SOA {
	return &dns.SOA{
		Hdr:     header(apex.String(), dns.TypeSOA, s.cfg.TTL),
		Ns:      s.primary.String(),
		Mbox:    "hostmaster." + s.cfg.Domain.String(),
		Serial:  snapshot.Serial(),
		Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: s.denialTTL(snapshot),
	}
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}
