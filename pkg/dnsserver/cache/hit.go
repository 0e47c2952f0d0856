// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// State is the result of a lookup. It determines what the caller does.
type State int

const (
	// Miss: no entry. Forward the query.
	Miss State = iota
	// Fresh: answer with the entry.
	Fresh
	// Expiring: answer with the entry and prefetch it. It was hit several times, and its TTL
	// is about to end. One caller at a time gets this state.
	Expiring
	// Stale: forward the query. If that fails or takes longer than a client waits,
	// answer with the entry (RFC 8767 section 5).
	Stale
	// Failing: answer with the entry. It is stale, and the last renewal failed less than
	// PutOptions.RetryInterval ago, or denied the name.
	Failing
)

// String returns the state as a label for metrics.
func (s State) String() string {
	return [...]string{"miss", "fresh", "expiring", "stale", "failing"}[s]
}

// staleTTL caps all TTLs of a stale answer, in seconds (RFC 8767 section 4). A shorter TTL
// stays: a record that changes every few seconds must not be kept for longer when it is old.
const staleTTL = 30

// Hit is a result of [Cache.Get] or [Cache.Put]. It refers to memory of the cache only.
type Hit struct {
	State State
	entry *entry
	age   time.Duration
}

// ReplyOptions are the parts of a query that its reply depends on, except those of its Question.
type ReplyOptions struct {
	ID   uint16 // the ID of the query
	Name []byte // Question.Name, for its case; nil: lower case
	RD   bool   // the query has the RD bit
	AD   bool   // the query has the AD or DO bit, so that the reply may have AD (RFC 6840 section 5.8)

	// MaxLen is the largest length of the reply without OPT record, in octets. A longer reply loses its additional
	// records. If it is still too long, it has the answer records that fit, and the TC bit. 0: no limit.
	MaxLen int
}

// Rcode returns the rcode of the reply, without the upper bits. It must not be called for a Miss.
func (h Hit) Rcode() int { return int(h.entry.wire[3] & maxRcode) }

// Len returns the length of the reply without limit, in octets. It must not be called for a Miss.
func (h Hit) Len() int { return len(h.entry.wire) }

// Cause returns the PutOptions.Cause of a failure, and 0 for other replies. It must not be called for a Miss.
func (h Hit) Cause() uint8 { return h.entry.cause }

// Denied reports whether the reply is the last known good answer to a question that the servers now deny.
// It must not be called for a Miss.
func (h Hit) Denied() bool { return h.entry.denied }

// FailedAt returns the time of the last failed renewal of a reply that is Failing. The caller may treat the hit as
// Stale if the servers have recovered since then.
func (h Hit) FailedAt() time.Time { return h.entry.stored.Add(time.Duration(h.entry.failedAt.Load())) }

// Append appends the reply to buf, and nothing for a Miss. It rotates the addresses of the answer. It
// allocates only if buf has too little capacity.
func (h Hit) Append(buf []byte, options ReplyOptions) []byte {
	if h.entry == nil {
		return buf
	}
	start := len(buf)
	records := len(h.entry.ttls)
	if options.MaxLen > 0 && len(h.entry.wire) > options.MaxLen {
		buf, records = h.entry.appendCut(buf, options.MaxLen)
	} else {
		buf = append(buf, h.entry.wire...)
	}
	reply := buf[start:]
	binary.BigEndian.PutUint16(reply, options.ID)
	if options.RD {
		reply[2] |= flagRD
	}
	if !options.AD {
		reply[3] &^= flagAD
	}
	if h.entry.bits&bitCD != 0 {
		reply[3] |= flagCD
	}
	copy(reply[headerLen:], options.Name)
	h.entry.rotateAddresses(reply, records)
	age, stale := uint32(h.age/time.Second), h.State == Stale || h.State == Failing
	for _, at := range h.entry.ttls[:records] {
		field := reply[at:]
		ttl := binary.BigEndian.Uint32(field)
		if stale {
			ttl = min(ttl, staleTTL)
		} else {
			ttl -= age
		}
		binary.BigEndian.PutUint32(field, ttl)
	}
	return buf
}

const (
	maxName     = 255 // octets on the wire, RFC 1035 section 2.3.4
	maxQuestion = maxName + 4
)

// Question holds everything that an answer depends on. The case of Name is ignored in
// comparisons and preserved in replies.
type Question struct {
	Name   []byte // wire form, not compressed
	Type   uint16
	Class  uint16
	DO, CD bool   // the bits of the query (RFC 3225, RFC 4035 section 3.2.2)
	Paths  []byte // the search list of an expansion in any form; empty for other queries
}

// key is a Question in comparable form: the question section in lower case, with which entries start, and the rest.
type key struct {
	question []byte
	bits     byte
	paths    []byte
}

// key writes the question section to buf, which needs a capacity of maxQuestion. It reports
// false if the length of the name is invalid.
func (q *Question) key(buf []byte) (key, bool) {
	if len(q.Name) == 0 || len(q.Name) > maxName {
		return key{}, false
	}
	buf = append(buf, q.Name...)
	for i, c := range buf { // length octets are below 'A'
		if 'A' <= c && c <= 'Z' {
			buf[i] = c | 0x20
		}
	}
	buf = binary.BigEndian.AppendUint16(buf, q.Type)
	buf = binary.BigEndian.AppendUint16(buf, q.Class)
	k := key{question: buf, paths: q.Paths}
	if q.DO {
		k.bits |= bitDO
	}
	if q.CD {
		k.bits |= bitCD
	}
	return k, true
}

// Bits of a key.
const (
	bitDO = 1 << iota
	bitCD
)

func (k key) hash(seed maphash.Seed) uint64 {
	h := maphash.Bytes(seed, k.question) + uint64(k.bits)
	if len(k.paths) > 0 {
		h ^= bits.RotateLeft64(maphash.Bytes(seed, k.paths), 1)
	}
	return h
}

// matches reports whether e is the entry of k.
func (k key) matches(e *entry) bool {
	return e.bits == k.bits && bytes.Equal(e.wire[headerLen:e.questionEnd], k.question) && bytes.Equal(e.paths, k.paths)
}

// run is a number of consecutive records, and the index of the first one.
type run struct{ first, count uint16 }

// firstAddresses returns the first RRset of several addresses: consecutive records of one owner and one
// type, A or AAAA.
func firstAddresses(records []dns.RR) run {
	for first := 0; first < len(records); {
		end := first + 1
		for end < len(records) && addressLen(records[first]) > 0 && inRRset(records[first], records[end]) {
			end++
		}
		if end > first+1 {
			return run{uint16(first), uint16(end - first)}
		}
		first = end
	}
	return run{}
}

// inRRset reports whether two records are addresses of one RRset.
func inRRset(a, b dns.RR) bool {
	return addressLen(a) == addressLen(b) && a.Header().Class == b.Header().Class && strings.EqualFold(a.Header().Name, b.Header().Name)
}

// addressLen returns the length of the address in a record, in octets, or 0 for other records.
func addressLen(r dns.RR) int {
	switch r := r.(type) {
	case *dns.A:
		if r.A.To4() != nil {
			return net.IPv4len
		}
	case *dns.AAAA:
		if len(r.AAAA) == net.IPv6len {
			return net.IPv6len
		}
	}
	return 0
}

// rotateAddresses makes a random one of the addresses the first one in a reply with the first records of
// e: most clients use the first address. A counter instead of a random number would have to be shared by
// all readers of the entry. TTL and address of a record move together. The owners are equal.
func (e *entry) rotateAddresses(reply []byte, records int) {
	first, count := int(e.addresses.first), int(e.addresses.count)
	if count < 2 {
		return
	}
	shift := rand.IntN(count)
	const fixed = 6 // TTL and length
	length := fixed + int(binary.BigEndian.Uint16(e.wire[e.ttls[first]+4:]))
	for i := range min(count, records-first) {
		from := int(e.ttls[first+(i+shift)%count])
		copy(reply[e.ttls[first+i]:], e.wire[from:from+length])
	}
}
