// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// zoneWire is the fast path for the most frequent answers: addresses, SRV records and negative
// answers. It returns them in wire form. For all other queries the field wire of the answer is
// nil.
//
// It reads and writes the records of a large RRset that fit into the reply, and no others. The
// first record is a random one, because most clients use the first record, and clients that
// ignore TC see a part of the RRset only.
func (s *Server) zoneWire(q *query, buf []byte, snapshot *zone.Snapshot, status zone.Status, apex fqdn.Name, node *zone.Node) answer {
	a := answer{source: fromZone}
	switch {
	case status == zone.NXDomain:
		a.rcode = dns.RcodeNameError
		a.wire = s.denialReply(q, buf, a.rcode, apex, snapshot)
	case status != zone.Exists || node.Alias != "":
	case q.qtype == dns.TypeA, q.qtype == dns.TypeAAAA, q.qtype == dns.TypeSRV:
		if a.wire = s.rrsetReply(q, buf, node); a.wire == nil {
			a.wire = s.denialReply(q, buf, a.rcode, apex, snapshot)
		}
	}
	return a
}

// rrsetReply returns the reply with the A, AAAA or SRV records of a node, or nil if there is none.
// A long reply over TCP comes from replyCache, or is put there.
func (s *Server) rrsetReply(q *query, buf []byte, node *zone.Node) []byte {
	if q.via == overTCP {
		if b, partial := s.replies.get(q, node.Version()); b != nil {
			if partial {
				s.observePartial(q)
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
	if partial {
		s.markPartial(q, b)
	}
	return b
}

// maxSampled is one more than the number of A records that fit into a reply over UDP. Fewer AAAA
// records fit.
const maxSampled = (maxUDP-headerLen)/(pointerLen+recordFixedLen+4) + 1

// sampleReply is addressReply for a large node. Over UDP it reads as many endpoints as fit.
func (s *Server) sampleReply(q *query, buf []byte, node *zone.Node) (b []byte, partial bool) {
	if q.via == overTCP {
		return s.addressReply(q, buf, node.Sample(nil, q.qtype == dns.TypeA, maxRRset+1))
	}
	var sample [2 * maxSampled]netip.Addr // with room for duplicates, so that Sample allocates nothing
	return s.addressReply(q, buf, node.Sample(sample[:0], q.qtype == dns.TypeA, maxSampled))
}

// maxSRV returns a number of SRV records that is larger than the number that fits into the reply,
// for the Service in the name of the query.
func (q *query) maxSRV() int {
	service := q.name
	for len(service) > 1 && service[1] == '_' { // _port and _proto
		_, service = service.Cut()
	}
	const shortestLabel = 2
	return q.size/(pointerLen+recordFixedLen+srvFixedLen+shortestLabel+len(service)) + 1
}

// A pointer replaces a name that occurs earlier in the message (RFC 1035 section 4.1.4).
const (
	pointerLen = 2       // octets
	maxPointer = 1 << 14 // a pointer has 14 bits for the offset of the name
)

// appendPointer appends a pointer to the name at an offset of the message.
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

// appendAddress appends an A or AAAA record without its owner name.
func appendAddress(b []byte, addr netip.Addr, ttl uint32) []byte {
	if addr.Is4() {
		octets := addr.As4()
		return append(appendFixed(b, dns.TypeA, ttl, len(octets)), octets[:]...)
	}
	octets := addr.As16()
	return append(appendFixed(b, dns.TypeAAAA, ttl, len(octets)), octets[:]...)
}

// addressReply returns the reply with the addresses, rotated, or nil if there is none. partial
// reports whether some do not fit.
func (s *Server) addressReply(q *query, buf []byte, addrs []netip.Addr) (b []byte, partial bool) {
	if len(addrs) == 0 {
		return nil, false
	}
	question, record := headerLen+len(q.question), pointerLen+recordFixedLen+addrs[0].BitLen()/8
	n := min(len(addrs), (q.maxLen(&answer{})-question)/record, maxRRset)
	buf = slices.Grow(buf[:0], question+n*record+q.optLen(&answer{})) // over TCP buf is nil
	b = q.startReply(buf, flagAA, dns.RcodeSuccess)
	first := 0
	if len(addrs) > 1 {
		first = rand.IntN(len(addrs))
	}
	for i := range n {
		b = appendAddress(appendPointer(b, headerLen), addrs[(first+i)%len(addrs)], s.cfg.TTL)
	}
	binary.BigEndian.PutUint16(b[6:], uint16(n))
	return b, n < len(addrs)
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
	b, limit := q.startReply(buf, flagAA, dns.RcodeSuccess), q.maxLen(&answer{})
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

// appendSRV appends and counts the SRV records. It reports whether all fit.
func (s *Server) appendSRV(b []byte, limit int, set zone.SRVSet, first int) (_ []byte, complete bool) {
	weight, count := set.Weight(), uint16(0)
	for t, port := range set.All(first) {
		previous := b // without this record
		b = appendFixed(appendPointer(b, headerLen), dns.TypeSRV, s.cfg.TTL, 0)
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

// appendTargets appends and counts the addresses of the targets of the SRV records in b, which begin
// at the offset answersAt. If not all addresses fit, it returns b without addresses. It reads the
// length of each SRV record from b, to compute the offsets of the names of its target and Service.
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
			if target < maxPointer {
				b = appendPointer(b, target)
			} else {
				b = appendPointer(t.AppendLabel(b), service)
			}
			b = appendAddress(b, addr, s.cfg.TTL)
		}
	}
	return b
}

// maxRRset is the largest number of records in an RRset of the zone. That many A records fit
// into a reply over TCP. Of other types fewer fit.
const maxRRset = 4000

// partialLogInterval is the least time between two warnings about RRsets that do not fit.
const partialLogInterval = time.Minute

// markPartial marks a reply with a part of an RRset. Over UDP it sets TC, so that the client repeats
// the query over TCP. Over TCP it does not, because the client has no other transport.
func (s *Server) markPartial(q *query, b []byte) {
	if q.via == overUDP {
		b[2] |= flagTC >> 8
		return
	}
	s.observePartial(q)
}

// observePartial counts and logs a reply over TCP with a part of an RRset.
func (s *Server) observePartial(q *query) {
	s.metrics.partial.Inc()
	now, last := q.received.UnixNano(), s.metrics.partialLogged.Load()
	if now-last >= int64(partialLogInterval) && s.metrics.partialLogged.CompareAndSwap(last, now) {
		s.log.Warn("RRset is larger than a reply: clients get a part of it: split the Service",
			"name", q.owner(), "type", dns.Type(q.qtype), "limit", maxRRset)
	}
}

// denialReply returns a negative reply: without answer, and with the SOA record of the zone in the
// authority section (RFC 2308 section 2). It returns nil if the reply is too long.
func (s *Server) denialReply(q *query, buf []byte, rcode int, apex fqdn.Name, snapshot *zone.Snapshot) []byte {
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
