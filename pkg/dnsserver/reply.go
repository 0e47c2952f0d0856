// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"net/netip"
	"sort"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// reply is the reply to a query, with the values of its metric labels.
type reply struct {
	wire   []byte // nil: nothing is sent
	source source
	rcode  int
	packed bool // wire was packed from records; false: it is an answer in wire form

	// partial is the owner of an RRset of the answer that a packed reply over TCP has in part, without TC; "": none.
	partial string
}

// minRecordLen is the length of the shortest record, in octets.
const minRecordLen = 1 + recordFixedLen

// reply returns the reply to q, no longer than the client accepts. It writes the reply into
// buf[:0] if the capacity suffices.
func (q *query) reply(a answer, buf []byte) reply {
	b, packed, partial := a.wire, false, ""
	limit := q.maxReply - q.optLen(&a)
	if a.hit.State != cache.Miss {
		b = a.hit.Append(buf[:0], cache.ReplyOptions{
			ID: q.id, Name: q.questionName(), RD: q.flags&flagRD != 0, AD: q.do || q.flags&flagAD != 0, MaxLen: limit,
		})
	}
	if b == nil || len(b) > limit {
		a = a.withRecords()
		b, partial = q.pack(&a, buf)
		packed = true
	}
	if q.edns { // a client that sent no OPT record gets none (RFC 6891 section 7)
		b = q.appendOPT(b, &a)
	}
	if q.tsig != nil {
		b = q.appendTSIG(b)
	}
	return reply{wire: b, source: a.source, rcode: a.rcode, packed: packed, partial: partial}
}

// estimateLen estimates the length of the reply with the answer, in octets, before it is packed.
// The reply is never longer, because the estimate counts names without compression.
func (q *query) estimateLen(a *answer) int {
	n := q.optLen(a) + len(q.tsig)
	switch {
	case a.wire != nil:
		return min(n+len(a.wire), q.maxReply)
	case a.hit.State != cache.Miss:
		return min(n+a.hit.Len(), q.maxReply)
	}
	n += headerLen + len(q.question)
	for _, section := range [][]dns.RR{a.answers, a.authority, a.additional} {
		for _, rr := range section {
			if n += dns.Len(rr); n >= q.maxReply {
				return q.maxReply
			}
		}
	}
	return n
}

// putHeader writes the ID and the flags of the reply into b[:4]. It does not change the counts.
func (q *query) putHeader(b []byte, flags uint16, rcode int) {
	binary.BigEndian.PutUint16(b, q.id)
	binary.BigEndian.PutUint16(b[2:], flagQR|flagRA|q.flags&(maskOpcode|flagRD|flagCD)|flags|uint16(rcode)&maskRcode)
}

// startReply writes the header and the question into buf[:0]. The counts of all other sections are 0.
func (q *query) startReply(buf []byte, flags uint16, rcode int) []byte {
	var header [headerLen]byte
	q.putHeader(header[:], flags, rcode)
	if q.question != nil {
		header[5] = 1
	}
	return append(append(buf[:0], header[:]...), q.question...)
}

// A pointer replaces a name that occurs earlier in the message (RFC 1035 section 4.1.4).
const (
	pointerLen  = 2       // octets
	pointerFlag = 3 << 14 // the two high bits, which mark a pointer
	pointerEnd  = 1 << 14 // a pointer has 14 bits for the offset: no pointer can refer to a name from here on
)

// appendRecord appends a record without its data, given the offset of its owner name in the
// message: a pointer to the name, type, class, TTL, and the length of the data.
func appendRecord(b []byte, ownerAt int, rrtype uint16, ttl uint32, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, pointerFlag|uint16(ownerAt))
	b = binary.BigEndian.AppendUint16(b, rrtype)
	b = binary.BigEndian.AppendUint16(b, dns.ClassINET)
	b = binary.BigEndian.AppendUint32(b, ttl)
	return binary.BigEndian.AppendUint16(b, uint16(length))
}

// appendAddress appends an A or AAAA record, given the offset of its owner name in the message.
func appendAddress(b []byte, ownerAt int, addr netip.Addr, ttl uint32) []byte {
	if addr.Is4() {
		octets := addr.As4()
		return append(appendRecord(b, ownerAt, dns.TypeA, ttl, len(octets)), octets[:]...)
	}
	octets := addr.As16()
	return append(appendRecord(b, ownerAt, dns.TypeAAAA, ttl, len(octets)), octets[:]...)
}

// appendOPT appends the OPT record of the reply and increments ARCOUNT.
func (q *query) appendOPT(b []byte, a *answer) []byte {
	binary.BigEndian.PutUint16(b[10:], binary.BigEndian.Uint16(b[10:])+1)
	var flags uint16
	if q.do {
		flags = flagDO
	}
	b = append(b, 0) // the root
	b = binary.BigEndian.AppendUint16(b, dns.TypeOPT)
	b = binary.BigEndian.AppendUint16(b, maxUDP)
	b = append(b, byte(a.rcode>>4), 0) // the upper bits of the rcode, EDNS version 0
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(q.optLen(a)-optFixedLen))
	if a.echo != 0 {
		b = binary.BigEndian.AppendUint16(b, a.echo)
		b = binary.BigEndian.AppendUint16(b, 0)
	}
	if a.extended != nil {
		b = appendExtended(b, a.extended.InfoCode, a.extended.ExtraText)
	}
	if a.cachedFailure { // after the cause: some clients show the first extended error only
		b = appendExtended(b, dns.ExtendedErrorCodeCachedError, "")
	}
	return b
}

// appendExtended appends an EDNS0 option with an extended error. A reply may have several (RFC 8914 section 2).
func appendExtended(b []byte, code uint16, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, dns.EDNS0EDE)
	b = binary.BigEndian.AppendUint16(b, uint16(infoCodeLen+len(text)))
	b = binary.BigEndian.AppendUint16(b, code)
	return append(b, text...)
}

// optLen returns the length of the OPT record of the reply, or 0 if it has none.
func (q *query) optLen(a *answer) int {
	if !q.edns {
		return 0
	}
	n := optFixedLen
	if a.echo != 0 {
		n += optionHeaderLen
	}
	if a.extended != nil {
		n += optionHeaderLen + infoCodeLen + len(a.extended.ExtraText)
	}
	if a.cachedFailure {
		n += optionHeaderLen + infoCodeLen
	}
	return n
}

// pack returns the reply with the answer's records, without its OPT record. If a record cannot
// be packed, it sets a.rcode to SERVFAIL. See reply.partial.
func (q *query) pack(a *answer, buf []byte) (b []byte, partial string) {
	flags := uint16(0)
	if a.authoritative {
		flags |= flagAA
	}
	// AD is for clients that understand it (RFC 6840 section 5.8).
	if a.authentic && (q.do || q.flags&flagAD != 0) {
		flags |= flagAD
	}
	if len(a.answers)+len(a.authority)+len(a.additional) == 0 {
		if a.truncated {
			flags |= flagTC
		}
		return q.startReply(buf, flags, a.rcode), ""
	}
	m := dns.Msg{
		MsgHdr:   dns.MsgHdr{Truncated: a.truncated},
		Compress: true,
		Question: []dns.Question{{Name: q.presentationName(), Qtype: q.qtype, Qclass: dns.ClassINET}},
		Answer:   a.answers, Ns: a.authority, Extra: a.additional,
	}
	truncate(&m, q.maxReply-q.optLen(a))
	if q.via == overTCP && (a.source == fromZone || a.source == fromWalk) {
		if n := len(m.Answer); n < len(a.answers) {
			partial = a.answers[n].Header().Name
		}
		m.Truncated = a.truncated // over TCP a partial RRset of the zone does not set TC, see rrsetReply
	}
	b, err := m.PackBuffer(buf[:cap(buf)])
	if err != nil { // an upstream server sent a record that cannot be packed again
		a.rcode = dns.RcodeServerFailure
		return q.startReply(buf, 0, a.rcode), ""
	}
	if m.Truncated {
		flags |= flagTC
	}
	q.putHeader(b, flags, a.rcode)
	return b, partial
}

// truncate removes records until m fits into size octets. It removes all additional records
// first, which does not set TC (RFC 2181 section 9). It then sets TC, and removes the authority
// records and as many answer records as necessary.
func truncate(m *dns.Msg, size int) {
	answers := m.Answer[:min(len(m.Answer), size/minRecordLen)] // the rest cannot fit, and would make Len slow
	partial := len(answers) < len(m.Answer)
	m.Answer = answers
	if !partial && m.Len() <= size {
		return
	}
	m.Extra = nil
	if !partial && m.Len() <= size {
		return
	}
	m.Truncated, m.Ns = true, nil
	fit := sort.Search(len(answers), func(n int) bool {
		m.Answer = answers[:n+1]
		return m.Len() > size
	})
	m.Answer = answers[:fit]
}
