// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/miekg/dns"
)

const headerLen = 12 // RFC 1035 section 4.1.1

// The bits of the third and fourth octet of the header that a cache has to do with.
const (
	flagQR = 0x80
	flagRD = 0x01

	flagRA = 0x80
	flagAD = 0x20
	flagCD = 0x10
)

// entry is a reply in wire form. All but its place and the counters stays as it was
// made, so that readers need no lock.
type entry struct {
	hash    uint64
	wire    []byte
	ttls    []uint16 // where the TTLs are in wire
	paths   []byte
	records int // where the question ends in wire
	bits    byte
	failure bool
	stored  time.Time
	life    time.Duration // from stored on
	kept    time.Duration // from stored on: its life, and then as stale

	hits    atomic.Uint32 // since the hand passed, at most popular
	next    atomic.Pointer[entry]
	refresh atomic.Int64 // since stored: nobody else is asked to refresh before
	retry   atomic.Int64 // since stored: a refresh failed, the next is due then

	newer, older *entry // guarded by Cache.mu
}

// size is what e takes of Config.MaxBytes: its parts, and what the allocator adds by
// rounding them up.
func (e *entry) size() int {
	const rounding = 48
	return int(unsafe.Sizeof(*e)) + rounding + len(e.wire) + 2*len(e.ttls) + len(e.paths)
}

// hit counts a reader. Past the limit it only reads, so that the readers of a popular
// entry do not take its memory from each other.
func (e *entry) hit() {
	if e.hits.Load() < popular {
		e.hits.Add(1)
	}
}

// nameError tells whether the reply is NXDOMAIN about the name itself, and not about
// what it is an alias of.
func (e *entry) nameError() bool {
	const answers = 6 // where their number is in the header
	return e.wire[3]&15 == dns.RcodeNameError && binary.BigEndian.Uint16(e.wire[answers:]) == 0
}

// pack makes the entry of a reply to k, without what belongs to the exchange. No TTL
// in it is above limit. name is the question's name as text, in lower case. It
// returns nil for what cannot be packed.
func pack(k key, name string, reply *dns.Msg, limit uint32) *entry {
	m := dns.Msg{
		MsgHdr:   dns.MsgHdr{Response: true, RecursionAvailable: true, AuthenticatedData: reply.AuthenticatedData, Rcode: reply.Rcode},
		Compress: true,
		Question: []dns.Question{{Name: name, Qtype: reply.Question[0].Qtype, Qclass: reply.Question[0].Qclass}},
	}
	if reply.Rcode != dns.RcodeServerFailure {
		m.Answer, m.Ns, m.Extra = spelled(reply.Answer, name), spelled(reply.Ns, name), spelled(reply.Extra, name)
	}
	packed, err := m.Pack()
	if err != nil || len(packed) > dns.MaxMsgSize {
		return nil
	}
	e := &entry{
		wire:    append(make([]byte, 0, len(packed)), packed...), // Pack leaves room at the end
		records: headerLen + len(k.question),
		bits:    k.bits,
		paths:   append([]byte(nil), k.paths...),
		failure: reply.Rcode == dns.RcodeServerFailure,
	}
	if !e.locate(len(m.Answer)+len(m.Ns)+len(m.Extra), limit) || !k.is(e) {
		return nil
	}
	return e
}

// spelled returns records without those of the transport. Owners that are the name
// asked for are spelled as the question is, so that they compress to it.
func spelled(records []dns.RR, name string) []dns.RR {
	kept := make([]dns.RR, 0, len(records))
	for _, r := range records {
		if ofTransport(r) {
			continue
		}
		if owner := r.Header().Name; owner != name && strings.EqualFold(owner, name) {
			r = dns.Copy(r) // the reply is shared with others
			r.Header().Name = name
		}
		kept = append(kept, r)
	}
	return kept
}

// locate finds the TTLs of the records and lowers them to limit. It is false if the
// message is not what the counts say.
func (e *entry) locate(count int, limit uint32) bool {
	e.ttls = make([]uint16, 0, count)
	at := e.records
	for range count {
		at = skipName(e.wire, at)
		const fixed = 10 // type, class, TTL, length
		if at < 0 || at+fixed > len(e.wire) {
			return false
		}
		ttl := e.wire[at+4 : at+8]
		binary.BigEndian.PutUint32(ttl, min(binary.BigEndian.Uint32(ttl), limit))
		e.ttls = append(e.ttls, uint16(at+4))
		at += fixed + int(binary.BigEndian.Uint16(e.wire[at+8:]))
	}
	return at == len(e.wire)
}

// skipName returns where the name at offset at ends, or -1 where there is none.
func skipName(wire []byte, at int) int {
	for at < len(wire) {
		switch length := int(wire[at]); {
		case length == 0:
			return at + 1
		case length >= 0xC0: // a pointer ends a name, RFC 1035 section 4.1.4
			return at + 2
		default:
			at += 1 + length
		}
	}
	return -1
}
