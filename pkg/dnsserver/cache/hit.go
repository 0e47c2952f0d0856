// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"
	"time"

	"github.com/miekg/dns"
)

// State is what a look-up found, and what the asker should do.
type State int

const (
	// Miss: there is nothing. Ask upstream.
	Miss State = iota
	// Fresh: answer.
	Fresh
	// Expiring: answer, and refresh the entry. It is popular and near its end;
	// one asker is told so.
	Expiring
	// Stale: ask upstream. If that fails or takes longer than a client waits,
	// answer with this (RFC 8767 section 5).
	Stale
	// Failing: as Stale, but upstream has failed a moment ago: answer with this
	// at once.
	Failing
)

// String returns the state as a label for metrics.
func (s State) String() string {
	return [...]string{"miss", "fresh", "expiring", "stale", "failing"}[s]
}

// staleTTL stands in stale answers in place of all TTLs, in seconds (RFC 8767
// section 4).
const staleTTL = 30

// Hit is what [Cache.Get] found. It is valid as long as the question's bytes are.
type Hit struct {
	State State

	entry    *entry
	question Question
	age      time.Duration
}

// ReplyOptions is what a reply repeats of a query, beside the question.
type ReplyOptions struct {
	ID uint16
	RD bool
	AD bool // it understands AD: it has set AD or DO (RFC 6840 section 5.8)
}

// Len returns the length of the reply without OPT. A Miss has none.
func (h *Hit) Len() int {
	if h.entry == nil {
		return 0
	}
	return len(h.entry.wire)
}

// Append appends the reply to buf. It takes memory only if buf has no room. For a
// Miss it appends nothing.
func (h *Hit) Append(buf []byte, to ReplyOptions) []byte {
	if h.entry == nil {
		return buf
	}
	start := len(buf)
	buf = append(buf, h.entry.wire...)
	reply := buf[start:]
	binary.BigEndian.PutUint16(reply, to.ID)
	if to.RD {
		reply[2] |= flagRD
	}
	if !to.AD {
		reply[3] &^= flagAD
	}
	if h.question.CD {
		reply[3] |= flagCD
	}
	copy(reply[headerLen:], h.question.Name)
	age, stale := uint32(h.age/time.Second), h.State == Stale || h.State == Failing
	for _, at := range h.entry.ttls {
		field := reply[at:]
		ttl := uint32(staleTTL)
		if !stale {
			ttl = binary.BigEndian.Uint32(field) - age
		}
		binary.BigEndian.PutUint32(field, ttl)
	}
	return buf
}

// Msg returns the reply unpacked, or nil for a Miss.
func (h *Hit) Msg(to ReplyOptions) *dns.Msg {
	if h.entry == nil {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(h.Append(nil, to)); err != nil {
		return nil
	}
	return m
}
