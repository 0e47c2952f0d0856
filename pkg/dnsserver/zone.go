// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// answerFromZone answers names in the zone. The most frequent answers are in wire form, which is
// the fast path: addresses, SRV records, and negative answers. All others have records. ok is false
// for names that are not in the zone.
func (s *Server) answerFromZone(ctx context.Context, q *query, buf []byte) (r result, ok bool) {
	if s.nodeCache { // its zone is empty, and the lookup would take a fifth of the time of a cache hit
		return result{}, false
	}
	snapshot := s.cfg.Zone.Snapshot()
	status, apex, node := s.lookupZone(snapshot, q.name)
	if status == zone.NotInZone {
		return result{}, false
	}
	a := answer{source: fromZone}
	switch {
	case status == zone.NXDomain:
		a.rcode = dns.RcodeNameError
		a.wire = s.negativeReply(q, buf, a.rcode, apex, snapshot)
	case status != zone.Exists || node.Alias != "":
		// zoneRecords answers below: the zone is not loaded, or the name is an alias.
	case q.qtype == dns.TypeA, q.qtype == dns.TypeAAAA, q.qtype == dns.TypeSRV:
		if a.wire = s.rrsetReply(q, buf, &node); a.wire == nil {
			a.wire = s.negativeReply(q, buf, a.rcode, apex, snapshot)
		}
	}
	if a.wire == nil {
		return s.zoneRecords(ctx, q, snapshot)
	}
	return result{answer: a}, true
}

// lookupZone looks up a name in the zone, see zone.Snapshot.Lookup. A name is not in the zone if it
// is in a stub domain that is longer than the apex.
func (s *Server) lookupZone(snapshot *zone.Snapshot, name fqdn.Name) (zone.Status, fqdn.Name, zone.Node) {
	status, apex, node := snapshot.Lookup(name)
	if fwd := s.forwarding.Load(); status != zone.NotInZone && fwd.stubInZone && len(fwd.stubFor(name).Zone) > len(apex) {
		return zone.NotInZone, "", zone.Node{}
	}
	return status, apex, node
}

// rrsetReply returns the reply with the A, AAAA or SRV records of a zone.Node, or nil if it has
// none. A long reply over TCP comes from replyCache, or is put there.
//
// It reads and writes the records of a large RRset that fit into the reply, and no others. The first record is a
// random one, because most clients use the first record, and clients that ignore TC see a part of the RRset only.
func (s *Server) rrsetReply(q *query, buf []byte, node *zone.Node) []byte {
	if q.via == overTCP {
		if b, partial := s.replies.get(q, node.Version()); b != nil {
			if partial {
				s.observePartial(q, q.presentationName(), b)
			}
			return b
		}
	}
	var b []byte
	var partial bool
	switch {
	case q.qtype == dns.TypeSRV:
		b, partial = s.srvReply(q, buf, node.SRV(q.maxSRV()))
	case node.Large:
		b, partial = s.sampleReply(q, buf, node)
	case q.qtype == dns.TypeA:
		b, partial = s.addressReply(q, buf, node.V4)
	default:
		b, partial = s.addressReply(q, buf, node.V6)
	}
	if q.via == overTCP {
		s.replies.put(q, node.Version(), b, partial)
	}
	switch {
	case partial && q.via == overUDP: // the client repeats the query over TCP
		b[2] |= flagTC >> 8
	case partial: // without TC, because the client has no other transport
		s.observePartial(q, q.presentationName(), b)
	}
	return b
}

// addressReply returns the reply with the addresses, rotated, or nil if there is none. partial
// reports whether some do not fit.
func (s *Server) addressReply(q *query, buf []byte, addrs []netip.Addr) (b []byte, partial bool) {
	if len(addrs) == 0 {
		return nil, false
	}
	question, record := headerLen+len(q.question), pointerLen+recordFixedLen+addrs[0].BitLen()/8
	opt := q.optLen(&answer{})
	n := min(len(addrs), (q.maxReply-opt-question)/record, maxRRset)
	buf = slices.Grow(buf[:0], question+n*record+opt) // over TCP buf is nil
	b = q.startReply(buf, flagAA, dns.RcodeSuccess)
	first := 0
	if len(addrs) > 1 {
		first = rand.IntN(len(addrs))
	}
	for i := range n {
		b = appendAddress(b, headerLen, addrs[(first+i)%len(addrs)], s.cfg.TTL)
	}
	binary.BigEndian.PutUint16(b[6:], uint16(n))
	return b, n < len(addrs)
}

// maxSampled is more than the number of A records that fit into a reply over UDP, so that a partial
// RRset is detected. Fewer AAAA records fit.
const maxSampled = (maxUDP-headerLen)/(pointerLen+recordFixedLen+4) + 1

// sampleReply is addressReply for a name with many endpoints (zone.Node.Large). Over UDP it reads
// at most maxSampled of them.
func (s *Server) sampleReply(q *query, buf []byte, node *zone.Node) (b []byte, partial bool) {
	if q.via == overTCP {
		return s.addressReply(q, buf, node.Sample(nil, q.qtype == dns.TypeA, maxRRset+1))
	}
	var sample [2 * maxSampled]netip.Addr // with room for duplicates, so that Sample allocates nothing
	return s.addressReply(q, buf, node.Sample(sample[:0], q.qtype == dns.TypeA, maxSampled))
}

// maxRRset is the largest number of records of an RRset of the zone in a reply in wire form. That many
// A records fit into a reply over TCP. Of other types fewer fit. A packed reply has as many as fit.
const maxRRset = 4000

// maxAddresses is the number of A records that fit into the longest reply, beside nothing else.
const maxAddresses = (dns.MaxMsgSize - headerLen) / (pointerLen + recordFixedLen + 4)

// partialLogInterval is the least time between two warnings about RRsets that do not fit.
const partialLogInterval = time.Minute

// observePacked calls observePartial for a packed reply over TCP if the RRset that it has in part is
// one of the cluster. The target of an alias, and a candidate of a search list, may be others.
func (s *Server) observePacked(q *query, r reply) {
	if owner, err := fqdn.ParseName(r.partial); err == nil && s.mayBeInZone(owner) {
		s.observePartial(q, r.partial, r.wire)
	}
}

// observePartial counts and logs a reply b over TCP with a part of the RRset of owner.
func (s *Server) observePartial(q *query, owner string, b []byte) {
	s.metrics.partial.Inc()
	now, last := q.received.UnixNano(), s.metrics.partialLogged.Load()
	if now-last >= int64(partialLogInterval) && s.metrics.partialLogged.CompareAndSwap(last, now) {
		s.log.Warn("RRset is larger than a reply: clients get a part of it: split the Service",
			"name", owner, "type", dns.Type(q.qtype), "records", binary.BigEndian.Uint16(b[6:]))
	}
}

// negativeReply returns a negative reply: without answer, and with the SOA record of the zone in
// the authority section (RFC 2308 section 2). It returns nil if the reply is too long, or in an external zone.
func (s *Server) negativeReply(q *query, buf []byte, rcode int, apex fqdn.Name, snapshot *zone.Snapshot) []byte {
	const (
		hostmaster = "\x0ahostmaster"
		soaTimes   = 5 * 4 // serial, refresh, retry, expire and minimum
	)
	maxLen := headerLen + len(q.question) + pointerLen + recordFixedLen + len(s.primary) + len(hostmaster) + pointerLen + soaTimes
	if maxLen+q.optLen(&answer{}) > q.maxReply || slices.Contains(s.cfg.Zone.External(), apex) {
		return nil
	}
	b := q.startReply(buf, flagAA, rcode)
	apexAt := headerLen + len(q.name) - len(apex)
	b = appendRecord(b, apexAt, dns.TypeSOA, s.cfg.TTL, 0)
	data := len(b)
	domainAt := apexAt
	if domain := s.cfg.Domain; apex == domain {
		b = append(b, s.primary[:len(s.primary)-len(domain)]...)
		b = binary.BigEndian.AppendUint16(b, pointerFlag|uint16(domainAt))
	} else {
		b = append(b, s.primary...)
		domainAt = len(b) - len(domain)
	}
	b = append(b, hostmaster...)
	b = binary.BigEndian.AppendUint16(b, pointerFlag|uint16(domainAt))
	for _, n := range [...]uint32{snapshot.Serial(), soaRefresh, soaRetry, soaExpire, s.negativeTTL(snapshot)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	binary.BigEndian.PutUint16(b[data-2:], uint16(len(b)-data))
	binary.BigEndian.PutUint16(b[8:], 1)
	return b
}

// maxStaleNegativeTTL is the longest negative TTL while the zone is stale, in seconds: the API server
// is unreachable, and a name may exist that the zone lacks.
const maxStaleNegativeTTL = 5

// negativeTTL returns the negative TTL of the zone, in seconds.
func (s *Server) negativeTTL(snapshot *zone.Snapshot) uint32 {
	if snapshot.StaleSince().IsZero() {
		return s.cfg.TTL
	}
	return min(s.cfg.TTL, maxStaleNegativeTTL)
}

// srvFixedLen is the length of an SRV record's priority, weight and port.
const srvFixedLen = 6

// srvReply returns the reply with the SRV records, rotated, and the addresses of their targets. If
// not all addresses fit, the reply has none. It returns nil if there is no SRV record. partial
// reports whether some SRV records do not fit.
func (s *Server) srvReply(q *query, buf []byte, set zone.SRVSet) (b []byte, partial bool) {
	first := 0
	if set.Targets() > 1 {
		first = rand.IntN(set.Targets())
	}
	b, limit := q.startReply(buf, flagAA, dns.RcodeSuccess), q.maxReply-q.optLen(&answer{})
	answersAt := len(b)
	b, complete := s.appendSRV(b, limit, set, first)
	switch {
	case !complete:
		return b, true
	case len(b) == answersAt:
		return nil, false
	}
	return s.appendTargets(b, answersAt, limit, set, first), false
}

// maxSRV returns more than the number of SRV records that fit into the reply. All targets end with
// the name of the Service, which is the end of q.name, so its length gives their least length.
func (q *query) maxSRV() int {
	service := q.name
	for len(service) > 1 && service[1] == '_' { // _port and _proto
		_, service = service.Cut()
	}
	const shortestLabel = 2
	return q.maxReply/(pointerLen+recordFixedLen+srvFixedLen+shortestLabel+len(service)) + 1
}

// appendSRV appends the SRV records and sets ANCOUNT. It reports whether all fit.
func (s *Server) appendSRV(b []byte, limit int, set zone.SRVSet, first int) (_ []byte, complete bool) {
	weight, count := set.Weight(), uint16(0)
	for t, port := range set.All(first) {
		previous := b // without this record
		b = appendRecord(b, headerLen, dns.TypeSRV, s.cfg.TTL, 0)
		data := len(b)
		b = binary.BigEndian.AppendUint16(b, 0) // the priority
		b = binary.BigEndian.AppendUint16(b, weight)
		b = binary.BigEndian.AppendUint16(b, port)
		b = t.AppendLabel(b)
		b = append(b, set.Service...) // not compressed (RFC 2782)
		if len(b) > limit {
			return previous, false
		}
		binary.BigEndian.PutUint16(b[data-2:], uint16(len(b)-data))
		count++
		binary.BigEndian.PutUint16(b[6:], count)
	}
	return b, true
}

// appendTargets appends the addresses of the targets of the SRV records in b, and sets ARCOUNT. The SRV records begin
// at the offset answersAt. If not all addresses fit, it returns b without addresses. It reads the length of each SRV
// record from b, to compute the offsets of the names of its target and Service.
func (s *Server) appendTargets(b []byte, answersAt, limit int, set zone.SRVSet, first int) []byte {
	withoutAddrs, count := b, 0
	end := answersAt // of the previous SRV record
	service := 0     // offset of the name of the Service in the first SRV record
	var last *zone.Target
	for t := range set.All(first) {
		data := end + pointerLen + recordFixedLen
		end = data + int(binary.BigEndian.Uint16(b[data-2:]))
		if service == 0 {
			service = end - len(set.Service)
		}
		if t == last {
			continue
		}
		last = t
		b = s.appendTargetAddrs(b, limit, t, data+srvFixedLen, service)
		if count += len(t.V4) + len(t.V6); len(b) > limit {
			return withoutAddrs
		}
	}
	binary.BigEndian.PutUint16(b[10:], uint16(count))
	return b
}

// appendTargetAddrs appends the addresses of a target until one does not fit. target and service
// are the offsets of the names of the target and of its Service in the message.
func (s *Server) appendTargetAddrs(b []byte, limit int, t *zone.Target, target, service int) []byte {
	for _, addrs := range [...][]netip.Addr{t.V4, t.V6} {
		for _, addr := range addrs {
			if len(b) > limit {
				return b
			}
			ownerAt := target
			if target >= pointerEnd {
				b, ownerAt = t.AppendLabel(b), service // the label, and a pointer to the rest of the name
			}
			b = appendAddress(b, ownerAt, addr, s.cfg.TTL)
		}
	}
	return b
}
