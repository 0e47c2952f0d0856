// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"container/heap"
	"container/list"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// replaceAfter is how long a slot is kept at least. Servers resolve most names in less time, and after the same time
// package upstream queries another server as well (hedgeDelay). unbound has the same default (jostle-timeout).
const replaceAfter = 200 * time.Millisecond

// limiter shares slots among clients by two rules:
//
//  1. A client takes any free slot, except a small reserve for clients that hold few.
//  2. When no slot is free, the oldest slot of the client that holds most is replaced, if it is
//     older than replaceAfter. Clients that hold few are equal: the oldest slot of all is replaced.
//     A client may thus replace a slot of its own, but none of a client that holds fewer.
//
// No client has a limit of its own: a node cache, an address behind NAT and a mail server are one
// client each, and need many slots while others need none.
//
// A slot is what a client waits with: a query that is forwarded, a TCP connection, or a reply that
// its client has not read. The kinds of queries share one limiter. Each kind has a reserve that the
// others leave free, and is counted for each client separately, so that names of silent servers
// delay no name of the cluster, not even for the same client.
type limiter struct {
	limit       int
	reserve     int // slots for clients that hold fewer than few slots
	few         int
	kindReserve int // slots of each kind that other kinds do not take
	maxPinned   int // slots that are not replaced; each new slot is one while there are fewer

	mu      sync.Mutex
	used    [numKinds]int
	pinned  int
	holders map[holderKey]*holder // those with a slot
	ranking ranking               // those with a slot that may be replaced
}

// holderKey is a client and the kind of its queries. A client is an address: the pods of a node may
// share an IPv6 prefix, and with one limit for the prefix a pod could take the slots of all.
type holderKey struct {
	client netip.Addr
	kind   queryKind
}

// holder holds the slots of a client.
type holder struct {
	holderKey
	held        int       // slots, with the pinned ones
	weight      int       // held, and at least limiter.few
	replaceable list.List // of *slot, the oldest first
	rank        int       // index in the ranking, valid while replaceable is not empty
}

// slot is a unit of a limiter.
type slot struct {
	limiter *limiter
	holder  *holder

	// Guarded by the mutex of the limiter.
	since    time.Time
	element  *list.Element // in holder.replaceable; nil: the slot is pinned
	released bool

	// Not guarded: when many slots are replaced, their owners would wait for the mutex one after another, and the
	// readers of sockets behind them.
	replaced  atomic.Bool
	onReplace atomic.Pointer[func()] // nil: not set yet, or called
}

// clientKey returns the address by which a client is known: an IPv4-mapped address is the IPv4
// address, and the zone of a link-local address, which is the interface, is left out.
func clientKey(client netip.Addr) netip.Addr { return client.Unmap().WithZone("") }

// newLimiter returns a limiter without pinned slots and without reserves for kinds. limit is at least 1.
func newLimiter(limit int) *limiter {
	reserve := limit / 16
	return &limiter{limit: limit, reserve: reserve, few: max(1, reserve/8), holders: map[holderKey]*holder{}}
}

// admit takes a slot for a client, or returns nil. A client whose address is unknown is the zero
// Addr. The caller must release the slot.
func (l *limiter) admit(client netip.Addr, kind queryKind, now time.Time) *slot {
	key := holderKey{clientKey(client), kind}
	var replaced *slot
	defer func() { replaced.callOnReplace() }() // without the mutex
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[key]
	if h == nil {
		h = &holder{holderKey: key}
	}
	if !l.hasRoomLocked(h) {
		if replaced = l.replaceLocked(h, now); replaced == nil {
			return nil
		}
	}
	s := &slot{limiter: l, holder: h, since: now}
	l.holders[key] = h
	l.used[kind]++
	h.held++
	h.weight = max(h.held, l.few)
	if l.pinned < l.maxPinned {
		l.pinned++
	} else if s.element = h.replaceable.PushBack(s); h.replaceable.Len() == 1 {
		heap.Push(&l.ranking, h)
	}
	l.rankLocked(h)
	return s
}

// hasRoomLocked reports whether h gets a free slot.
func (l *limiter) hasRoomLocked(h *holder) bool {
	if l.used[h.kind] < l.kindReserve {
		return true
	}
	free := l.limit
	for kind, used := range l.used {
		if queryKind(kind) != h.kind {
			used = max(used, l.kindReserve)
		}
		free -= used
	}
	if h.held >= l.few {
		free -= l.reserve
	}
	return free > 0
}

// replaceLocked makes room for h by the second rule. It returns the slot that gave way, or nil.
func (l *limiter) replaceLocked(h *holder, now time.Time) *slot {
	from := l.chooseLocked(0, h, now)
	if from == nil {
		return nil
	}
	s := from.oldest()
	l.dropLocked(s)
	s.replaced.Store(true)
	return s
}

// chooseLocked returns the holder whose slot is replaced for h, among that with number i in the ranking and those
// below it, or nil. It visits holders of many slots, at most limit/few, and of reserved slots.
func (l *limiter) chooseLocked(i int, h *holder, now time.Time) *holder {
	if i >= len(l.ranking) {
		return nil
	}
	candidate := l.ranking[i]
	isNew := now.Sub(candidate.oldest().since) < replaceAfter
	switch {
	case candidate.weight < h.weight, isNew && candidate.weight == l.few:
		return nil // nor one of those below, which hold no more, or as few and are newer
	case !isNew && (candidate.kind == h.kind || l.used[candidate.kind] > l.kindReserve):
		return candidate
	}
	left, right := l.chooseLocked(2*i+1, h, now), l.chooseLocked(2*i+2, h, now)
	if left == nil || right != nil && right.before(left) {
		return right
	}
	return left
}

// dropLocked takes the slot from its holder.
func (l *limiter) dropLocked(s *slot) {
	h := s.holder
	s.released = true
	l.used[h.kind]--
	h.held--
	if s.element == nil {
		l.pinned--
	} else if h.replaceable.Remove(s.element); h.replaceable.Len() == 0 {
		heap.Remove(&l.ranking, h.rank)
	}
	if h.held == 0 {
		delete(l.holders, h.holderKey)
	}
	l.rankLocked(h)
}

// rankLocked restores the order of the ranking after a change of h.
func (l *limiter) rankLocked(h *holder) {
	h.weight = max(h.held, l.few)
	if h.replaceable.Len() > 0 {
		heap.Fix(&l.ranking, h.rank)
	}
}

// whenReplaced sets the function that is called when the slot is replaced, which must not block. If
// the slot is replaced already, it is called now.
func (s *slot) whenReplaced(f func()) {
	s.onReplace.Store(&f)
	if s.replaced.Load() {
		s.callOnReplace()
	}
}

// callOnReplace calls the function of whenReplaced unless it is called already. s may be nil.
func (s *slot) callOnReplace() {
	if s == nil {
		return
	}
	if f := s.onReplace.Swap(nil); f != nil {
		(*f)()
	}
}

// isReplaced reports whether another client has the slot.
func (s *slot) isReplaced() bool { return s.replaced.Load() }

// renew makes the slot the newest one of its client. It is a no-op if the slot is replaced or pinned.
func (s *slot) renew(now time.Time) {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if s.element == nil || s.released {
		return
	}
	s.since = now
	s.holder.replaceable.MoveToBack(s.element)
	s.limiter.rankLocked(s.holder)
}

// release returns the slot. It is a no-op if the slot is replaced, or released already.
func (s *slot) release() {
	if s.isReplaced() {
		return
	}
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if !s.released {
		s.limiter.dropLocked(s)
	}
}

// inUse returns the number of slots that all clients hold.
func (l *limiter) inUse() (n int) {
	for kind := range numKinds {
		n += l.inUseBy(kind)
	}
	return n
}

// inUseBy returns the number of slots that queries of a kind hold.
func (l *limiter) inUseBy(kind queryKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[kind]
}

// oldest returns the slot that would be replaced first.
func (h *holder) oldest() *slot { return h.replaceable.Front().Value.(*slot) }

// before reports whether a slot of h is replaced before one of other.
func (h *holder) before(other *holder) bool {
	if h.weight != other.weight {
		return h.weight > other.weight
	}
	return h.oldest().since.Before(other.oldest().since)
}

// ranking is a heap of holders in the order in which their slots are replaced.
type ranking []*holder

func (r ranking) Len() int           { return len(r) }
func (r ranking) Less(i, j int) bool { return r[i].before(r[j]) }

func (r ranking) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].rank, r[j].rank = i, j
}

func (r *ranking) Push(h any) {
	h.(*holder).rank = len(*r)
	*r = append(*r, h.(*holder))
}

func (r *ranking) Pop() any {
	last := len(*r) - 1
	h := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return h
}
