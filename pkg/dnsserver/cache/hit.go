// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"time"
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
	// PutOptions.RetryInterval ago.
	Failing
)

// String returns the state as a label for metrics.
func (s State) String() string {
	return [...]string{"miss", "fresh", "expiring", "stale", "failing"}[s]
}

// staleTTL caps all TTLs of a stale answer, in seconds (RFC 8767 section 4). A shorter TTL
// stays: a record that changes every few seconds must not be kept for longer when it is old.
const staleTTL = 30

// Hit is a result of [Cache.Get] or [Cache.Put]. It refers to the question's bytes.
type Hit struct {
	State State

	// FailedAt is the time of the failed renewal, if State is Failing. The caller may treat
	// the hit as Stale if the servers have recovered since then.
	FailedAt time.Time

	entry    *entry
	question Question
	age      time.Duration
}

// ReplyOptions are the parts of a query that its reply depends on, except the question.
type ReplyOptions struct {
	ID uint16 // the ID of the query
	RD bool   // the query has the RD bit
	AD bool   // the query has the AD or DO bit, so that the reply may have AD (RFC 6840 section 5.8)

	// MaxLen is the largest length of the reply without OPT record, in octets. A longer reply
	// loses its additional records. If it is still too long, it has the answer records that
	// fit, and the TC bit. 0: no limit.
	MaxLen int
}

// Rcode returns the rcode of the reply, without the upper bits. It must not be called for a Miss.
func (h *Hit) Rcode() int { return int(h.entry.wire[3] & maxRcode) }

// Cause returns the PutOptions.Cause of a failure, and 0 for other replies. It must not be called
// for a Miss.
func (h *Hit) Cause() uint8 { return h.entry.cause }

// Append appends the reply to buf, and nothing for a Miss. It rotates the addresses of the answer. It
// allocates only if buf has too little capacity.
func (h *Hit) Append(buf []byte, options ReplyOptions) []byte {
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
	if h.question.CD {
		reply[3] |= flagCD
	}
	copy(reply[headerLen:], h.question.Name)
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
