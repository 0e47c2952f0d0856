// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

const (
	// replaceAfter is how long a query keeps its slot at least. Servers resolve most names in
	// less time, and after the same time package upstream queries another server as well
	// (hedgeDelay). unbound has the same default (jostle-timeout).
	replaceAfter = 200 * time.Millisecond

	// pinnedDivisor is the divisor for the number of pinned slots: limit/pinnedDivisor. A query in
	// a pinned slot is not replaced. Without pinned slots, servers that take longer than
	// replaceAfter for every name would complete no query at all under load.
	pinnedDivisor = 4

	// A client that holds fewer than limit/replacerDivisor slots may replace queries, also its own.
	// The budget refuses it a slot only if at most a quarter is free, because 1/16 = (1/4)² (see
	// budget). So three quarters are in use then, 11/16 of all slots by other clients.
	replacerDivisor = 16

	// replaceChoices is the number of queries among which the one to replace is chosen: those
	// that have waited for the longest time. The choice takes a few microseconds.
	replaceChoices = 64

	// The credit of a client grows by one with each reply other than an error such as SERVFAIL, and
	// falls by lossCost with each query that is replaced. So the credit of a client falls even if
	// half of its queries get a reply. A client with the least credit still gets replies in pinned
	// slots.
	minCredit, maxCredit = -16, 16
	lossCost             = 4
)

// slotPool is a budget whose units are slots of queries that wait for other servers. Many clients
// may query names whose servers do not reply, and hold all slots. Most other names need a slot for
// milliseconds. Therefore, if the budget grants no slot to a client with few slots, its query
// replaces one that has waited for a long time.
//
// Some servers reply, but take longer than replaceAfter. Queries to them should keep their slots,
// although they wait as long as queries without a reply. So the slot is taken from the client with
// the least credit, which is low for clients that get few replies.
type slotPool struct {
	*budget

	mu             sync.Mutex
	pinned         int64 // number of pinned slots
	oldest, newest *slot // the list of the slots that are not pinned

	// credits are higher for clients that get replies than for those whose queries are
	// replaced. A client without an entry has the credit 0.
	credits map[netip.Addr]int
}

func newSlotPool(limit int) *slotPool {
	return &slotPool{budget: newBudget(limit), credits: map[netip.Addr]int{}}
}

// slot is a unit of a slotPool. All fields are guarded by the mutex of the pool.
type slot struct {
	pool         *slotPool
	grant        grant
	since        time.Time
	pinned       bool
	replaced     bool
	onReplace    context.CancelFunc // nil: not set yet
	older, newer *slot
}

// admit takes a slot for a client. The caller must release it.
func (p *slotPool) admit(client netip.Addr, now time.Time) (*slot, refusalReason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, reason := p.acquire(client, 1)
	if reason != notRefused {
		if g = p.replaceLocked(client, now); g.budget == nil {
			return nil, reason
		}
	}
	s := &slot{pool: p, grant: g, since: now}
	if p.pinned < p.limit/pinnedDivisor {
		s.pinned = true
		p.pinned++
		return s, notRefused
	}
	s.older, p.newest = p.newest, s
	if s.older == nil {
		p.oldest = s
	} else {
		s.older.newer = s
	}
	return s, notRefused
}

// replaceLocked takes the slot of another query and returns it for a client, or the zero grant.
func (p *slotPool) replaceLocked(client netip.Addr, now time.Time) grant {
	if p.heldBy(client) >= max(1, p.limit/replacerDivisor) {
		return grant{}
	}
	s := p.replaceableLocked(now)
	if s == nil {
		return grant{}
	}
	p.unlinkLocked(s)
	s.replaced = true
	if s.onReplace != nil {
		s.onReplace()
	}
	p.addCreditLocked(s.grant.client, -lossCost)
	return s.grant.moveTo(client)
}

// replaceableLocked returns the slot to replace: among the replaceChoices queries that have waited
// for the longest time, and for replaceAfter at least, the oldest one of the client with the least
// credit. It returns nil if there is no such query.
func (p *slotPool) replaceableLocked(now time.Time) (chosen *slot) {
	least, s := maxCredit+1, p.oldest
	for range replaceChoices {
		if s == nil || now.Sub(s.since) < replaceAfter {
			break
		}
		if credit := p.credits[s.grant.client]; credit < least {
			chosen, least = s, credit
		}
		s = s.newer
	}
	return chosen
}

// addCreditLocked changes the credit of a client. If a new client would be one too many, it deletes
// the credits of all others: active clients soon have new ones.
func (p *slotPool) addCreditLocked(client netip.Addr, n int) {
	credit := min(max(p.credits[client]+n, minCredit), maxCredit)
	if _, ok := p.credits[client]; !ok && int64(len(p.credits)) >= p.limit {
		clear(p.credits)
	}
	p.credits[client] = credit
}

// unlinkLocked removes a slot that is not pinned from the list.
func (p *slotPool) unlinkLocked(s *slot) {
	if s.older == nil {
		p.oldest = s.newer
	} else {
		s.older.newer = s.newer
	}
	if s.newer == nil {
		p.newest = s.older
	} else {
		s.newer.older = s.older
	}
}

// use returns a context that ends when the slot is replaced. The caller must call cancel.
func (s *slot) use(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(ctx)
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.onReplace = cancel
	if s.replaced {
		cancel()
	}
	return ctx, cancel
}

// isReplaced reports whether another query has taken the slot.
func (s *slot) isReplaced() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.replaced
}

// recordReply records that the query got a reply other than an error.
func (s *slot) recordReply() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addCreditLocked(s.grant.client, 1)
}

// release returns the slot unless it is replaced. It must be called once.
func (s *slot) release() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.replaced:
		return
	case s.pinned:
		p.pinned--
	default:
		p.unlinkLocked(s)
	}
	s.grant.release()
}
