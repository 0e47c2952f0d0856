// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"encoding/binary"
	"sort"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/miekg/dns"
)

const headerLen = 12 // RFC 1035 section 4.1.1

// maxRcode is the largest rcode in a header, and the mask of its bits in the fourth octet. The OPT
// record has the upper bits of a larger rcode (RFC 6891 section 6.1.3).
const maxRcode = 15

// Bits of the third and fourth octet of the header (RFC 1035 section 4.1.1, RFC 4035 section 3).
const (
	flagTC = 0x02 // third
	flagRD = 0x01 // third

	flagAD = 0x20 // fourth
	flagCD = 0x10
)

// entry is a reply in wire form. Except for the links and counters it is immutable, so that readers need no lock.
type entry struct {
	hash        uint64
	wire        []byte
	ttls        []uint16 // offsets of the TTLs in wire
	paths       []byte   // Question.Paths
	questionEnd int      // offset in wire
	addresses   run      // in ttls: the address records of the answer
	bits        byte     // as in key
	kind        replyKind
	cause       uint8 // of a failure
	denied      bool  // the last known good answer: the servers deny the name since stored
	stored      time.Time
	ttl         time.Duration
	retention   time.Duration // ttl plus the time as stale

	hits          atomic.Uint32 // since the hand of the queue passed, at most prefetchHits
	next          atomic.Pointer[entry]
	prefetchAfter atomic.Int64 // age before which no other caller is to prefetch
	retryAfter    atomic.Int64 // age before which a failed renewal is not repeated
	failedAt      atomic.Int64 // age of the last failed renewal

	newer, older *entry // guarded by Cache.mu
}

// size returns the memory of e, as bounded by Config.MaxBytes, with the rounding of the allocator.
func (e *entry) size() int {
	const rounding = 48
	return int(unsafe.Sizeof(*e)) + rounding + len(e.wire) + 2*len(e.ttls) + len(e.paths)
}

// isFreshSince reports whether e is an answer that was stored at or after a time and is fresh now.
func (e *entry) isFreshSince(since, now time.Time) bool {
	return e.kind != failure && !e.stored.Before(since) && now.Sub(e.stored) < e.ttl
}

// outranks reports whether e says more about its name than a denial with an rcode. NODATA counts against
// NXDOMAIN, because a lookup of both families fails in musl if one of them gets NXDOMAIN.
func (e *entry) outranks(rcode int) bool {
	nodata := e.kind == denial && e.wire[3]&maxRcode == dns.RcodeSuccess
	return e.kind == answer || nodata && rcode == dns.RcodeNameError
}

// recordFailure records that a query to renew e failed.
func (e *entry) recordFailure(now time.Time, options PutOptions) {
	age := now.Sub(e.stored)
	e.failedAt.Store(int64(age))
	e.retryAfter.Store(int64(age + cmp.Or(options.RetryInterval, DefaultRetryInterval)))
}

// countHit counts a hit. From prefetchHits on it only reads, so that the readers of a popular
// entry do not invalidate each other's cache lines.
func (e *entry) countHit() {
	if e.hits.Load() < prefetchHits {
		e.hits.Add(1)
	}
}

// newEntry packs the reply to k with its scrubbed records, with no TTL above limit. name is the name of the question
// as text in lower case. A failure has no records. It returns nil if the reply cannot be packed.
func newEntry(k key, name string, reply *dns.Msg, s *scrubbed, kind replyKind, limit uint32) *entry {
	qtype, class := reply.Question[0].Qtype, reply.Question[0].Qclass
	m := dns.Msg{
		MsgHdr: dns.MsgHdr{
			Response: true, RecursionAvailable: true, Truncated: reply.Truncated,
			AuthenticatedData: reply.AuthenticatedData, Rcode: reply.Rcode,
		},
		Compress: true,
		Question: []dns.Question{{Name: name, Qtype: qtype, Qclass: class}},
	}
	switch {
	case kind != failure:
		m.Answer, m.Ns, m.Extra = withOwnerCase(s.answer, name), s.authority, s.additional
	case s.loop, m.Rcode > maxRcode: // such as BADVERS, about the OPT record that this server sent, not the client
		m.Rcode = dns.RcodeServerFailure
	}
	packed, err := m.Pack()
	if err != nil || len(packed) > dns.MaxMsgSize {
		return nil
	}
	e := &entry{
		wire:        append(make([]byte, 0, len(packed)), packed...), // Pack allocates more
		questionEnd: headerLen + len(k.question),
		addresses:   firstAddresses(m.Answer),
		bits:        k.bits,
		paths:       append([]byte(nil), k.paths...),
		kind:        kind,
	}
	if !e.indexTTLs(len(m.Answer)+len(m.Ns)+len(m.Extra), limit) || !k.matches(e) {
		return nil
	}
	return e
}

// withOwnerCase gives owner names that equal name its case, so that they are compressed to a pointer at
// the question. It changes records, but not their elements, which are shared.
func withOwnerCase(records []dns.RR, name string) []dns.RR {
	for i, r := range records {
		if owner := r.Header().Name; owner != name && strings.EqualFold(owner, name) {
			records[i] = dns.Copy(r)
			records[i].Header().Name = name
		}
	}
	return records
}

// indexTTLs records the offsets of the TTLs and lowers them to limit. It reports false if
// the message does not have count records.
func (e *entry) indexTTLs(count int, limit uint32) bool {
	e.ttls = make([]uint16, 0, count)
	at := e.questionEnd
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

// appendCut appends the reply with the records that fit into limit octets, and returns their
// number. It does not read the other records. They can be cut off, because a pointer of a compressed
// name refers to an earlier part of the message.
func (e *entry) appendCut(buf []byte, limit int) (reply []byte, records int) {
	start := len(buf)
	fit := sort.Search(len(e.ttls), func(n int) bool { return e.end(n+1) > limit })
	answers, authority := int(binary.BigEndian.Uint16(e.wire[6:])), int(binary.BigEndian.Uint16(e.wire[8:]))
	truncated := fit < answers+authority
	if truncated {
		fit, authority = min(fit, answers), 0
	} else {
		fit = answers + authority
	}
	buf = append(buf, e.wire[:e.end(fit)]...)
	reply = buf[start:]
	if truncated {
		reply[2] |= flagTC
	}
	binary.BigEndian.PutUint16(reply[6:], uint16(fit-authority))
	binary.BigEndian.PutUint16(reply[8:], uint16(authority))
	binary.BigEndian.PutUint16(reply[10:], 0)
	return buf, fit
}

// end returns the offset after the first n records.
func (e *entry) end(n int) int {
	if n == 0 {
		return e.questionEnd
	}
	at := int(e.ttls[n-1])
	return at + 6 + int(binary.BigEndian.Uint16(e.wire[at+4:]))
}

// skipName returns the offset after the name at an offset, or -1 if the name is cut off.
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

// replyKind is what a reply means to the cache.
type replyKind uint8

const (
	uncacheable replyKind = iota
	answer
	denial
	failure
)

// FailureTTL is the TTL of a failure: an rcode other than NOERROR and NXDOMAIN. RFC 9520
// section 3.2 requires one second to five minutes; pods retry after five seconds.
const FailureTTL = 5 * time.Second

// classify returns the kind of a reply to a question of a type, given its scrubbed records, and its TTL
// in seconds before any cap.
func classify(reply *dns.Msg, s *scrubbed, qtype uint16) (replyKind, uint32) {
	switch {
	case reply.Truncated, qtype == dns.TypeANY: // any subset of the records, RFC 8482
		return uncacheable, 0
	case s.loop, reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return failure, uint32(FailureTTL / time.Second)
	case s.found && reply.Rcode == dns.RcodeNameError:
		return uncacheable, 0
	case s.found:
		return answer, s.smallestTTL()
	case s.soa != nil:
		return denial, min(s.smallestTTL(), s.soa.Minttl)
	case reply.Rcode == dns.RcodeSuccess && len(s.answer)+len(reply.Ns) == 0: // not a referral either
		return denial, noSOATTL
	}
	return uncacheable, 0
}

// denies reports whether a reply says that its name, or the type, does not exist. It need not be cacheable.
func denies(reply *dns.Msg, s *scrubbed) bool {
	return !reply.Truncated && !s.loop && (reply.Rcode == dns.RcodeNameError || reply.Rcode == dns.RcodeSuccess && !s.found)
}

// noSOATTL is the TTL of NODATA without SOA record, in seconds, as in unbound. RFC 2308 section 5
// advises against caching it, but then each query of each client for such a name is forwarded.
const noSOATTL = 5

// isReply reports whether a message is a reply to q, whose name as text is name.
func isReply(m *dns.Msg, name string, q Question) bool {
	if !m.Response || m.Opcode != dns.OpcodeQuery || len(m.Question) != 1 {
		return false
	}
	question := m.Question[0]
	return question.Qtype == q.Type && question.Qclass == q.Class && strings.EqualFold(question.Name, name)
}

// smallestTTL returns the smallest TTL in all sections: no record may be used after its TTL.
func (s *scrubbed) smallestTTL() uint32 {
	smallest := uint32(maxTTL)
	for _, section := range [][]dns.RR{s.answer, s.authority, s.additional} {
		for _, r := range section {
			smallest = min(smallest, r.Header().Ttl)
		}
	}
	return smallest
}

// maxTTL is the largest TTL (RFC 2181 section 8). A larger one is capped (RFC 8767 section 4).
const maxTTL = 1<<31 - 1

// queue orders the entries by age and selects the one to evict, by SIEVE (Zhang et al., NSDI 2024). A hand moves from
// the oldest entry to the newest and starts over. Entries hit since the hand last passed stay in place; the others
// are evicted. A hit moves nothing, and a burst of names that are queried once does not evict popular ones.
type queue struct {
	newest, oldest *entry
	hand           *entry // nil: at the oldest
}

// evictLocked evicts entries that are expired or were not hit, until one more of a size fits. An empty cache has
// room for it.
func (c *Cache) evictLocked(size int, now time.Time) {
	for int(c.entries.Load()) >= c.cfg.MaxEntries || int(c.bytes.Load())+size > c.cfg.MaxBytes {
		e := cmp.Or(c.queue.hand, c.queue.oldest)
		if e.hits.Load() > 0 && now.Sub(e.stored) < e.retention {
			e.hits.Store(0)
			c.queue.hand = e.newer
			continue
		}
		c.queue.hand = e
		c.removeLocked(e)
		c.unlinkLocked(e)
		c.evictions.Add(1)
	}
}

// removeLocked removes e from the queue and the counters; readers still find it.
func (c *Cache) removeLocked(e *entry) {
	q := &c.queue
	if q.hand == e {
		q.hand = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		q.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		q.newest = e.older
	}
	e.newer, e.older = nil, nil
	c.entries.Add(-1)
	c.bytes.Add(-int64(e.size()))
}
