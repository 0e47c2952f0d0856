// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// queryKind is a kind of query that waits for other servers. Each kind has a reserve of slots, so that queries for
// names of the cluster zone are forwarded while the servers of all other names do not answer, and the reverse.
type queryKind uint8

const (
	kindPlain   queryKind = iota // all other names; also connections and replies, which have one kind
	kindCluster                  // names of the cluster zone, which a node cache forwards
	kindReverse                  // reverse names
	kindSearch                   // expansions of search lists, and each of their subqueries
	numKinds
)

// String returns the kind as a label of metrics.
func (kind queryKind) String() string {
	return [...]string{"plain", "cluster", "reverse", "search"}[kind]
}

// Limits bound what clients can use of the server: [limiter] has the rules. Zero values select the defaults.
type Limits struct {
	// MaxQueries is the number of queries that may wait for other servers, at least 100. At the limit a query gets a
	// stale answer or SERVFAIL. Most queries that wait hold a UDP source port, and there are 65535 ports.
	MaxQueries int

	// MaxMemory is the memory in octets for what clients leave in the server, at least 4 MiB: a quarter for the
	// cache (CacheConfig), an eighth for replies over TCP that their clients have not read, and the rest for TCP
	// connections. At these limits replies are evicted from the cache, and connections are closed.
	MaxMemory int
}

// Defaults of Limits.
const (
	DefaultMaxQueries = 4096
	DefaultMaxMemory  = 64 << 20
)

const (
	// connectionMemory is the memory for a TCP connection, in octets: 3,800 connections that have
	// sent a query took 10.6 kB each.
	connectionMemory = 10 << 10

	// replyMemory is the memory for a reply over TCP that its client has not read, in octets: the
	// longest one. Only replies longer than smallReply count.
	replyMemory = 64 << 10
)

// withDefaults returns the limits with the defaults for zero values.
func (l Limits) withDefaults() Limits {
	return Limits{MaxQueries: cmp.Or(l.MaxQueries, DefaultMaxQueries), MaxMemory: cmp.Or(l.MaxMemory, DefaultMaxMemory)}
}

// CacheConfig returns the size of the cache for these limits.
func (l Limits) CacheConfig() cache.Config {
	octets := l.withDefaults().MaxMemory / 4
	return cache.Config{MaxBytes: octets, MaxEntries: octets / (cache.DefaultMaxBytes / cache.DefaultMaxEntries)}
}

// maxConnections returns the number of TCP connections that may be open.
func (l Limits) maxConnections() int { return l.MaxMemory / 8 * 5 / connectionMemory }

// maxReplies returns the number of long replies over TCP that may wait for their clients.
func (l Limits) maxReplies() int { return l.MaxMemory / 8 / replyMemory }

// newQueryLimiter returns the limiter of the queries that wait for other servers.
//
// Half of the slots are pinned, and a sixteenth more to make up for the time between two queries:
// under any load, servers that take longer than replaceAfter for every name complete half of the
// queries that the slots could complete.
func newQueryLimiter(limits Limits) *limiter {
	l := newLimiter(limits.MaxQueries)
	l.kindReserve = l.limit / 32
	l.maxPinned = l.limit/2 + l.limit/16
	return l
}

// admit acquires a slot for r, which waits for other servers. It returns a function that waits and releases the slot;
// the caller must call it. If there is no slot, wait is nil and a is the answer.
func (s *Server) admit(client netip.Addr, r result) (a answer, wait func(context.Context) answer) {
	slot, kind, await := s.queries.admit(client, r.kind, time.Now()), r.kind, r.wait
	switch {
	case slot != nil && r.stale != nil:
		return answer{}, func(ctx context.Context) answer { return s.awaitOrStale(ctx, r, slot) }
	case slot != nil:
		return answer{}, func(ctx context.Context) answer { return s.awaitInSlot(ctx, kind, await, slot) }
	}
	refused := s.refuse(kind, refusedLimit)
	if r.stale != nil {
		return r.stale(), nil
	}
	return refused, nil
}

// staleDelay is how long a client waits before it gets a stale answer (RFC 8767 section 5).
const staleDelay = 1800 * time.Millisecond

// awaitOrStale waits for r, which has a stale answer, and releases its slot. It returns the stale answer when the other
// servers fail or take longer than staleDelay. The query then continues with its slot, so that the next client gets the
// new answer.
func (s *Server) awaitOrStale(ctx context.Context, r result, slot *slot) answer {
	fresh := make(chan answer, 1)
	s.goTracked(ctx, func(ctx context.Context) { fresh <- s.awaitInSlot(ctx, r.kind, r.wait, slot) })
	delay := time.NewTimer(staleDelay)
	defer delay.Stop()
	select {
	case a := <-fresh:
		if !a.failed() {
			return a
		}
	case <-delay.C:
	case <-ctx.Done():
	}
	return r.stale()
}

// awaitInSlot waits until the slot is replaced, and releases it.
func (s *Server) awaitInSlot(ctx context.Context, kind queryKind, await func(context.Context) answer, slot *slot) answer {
	defer slot.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slot.whenReplaced(cancel)
	a := await(ctx)
	if a.failed() && slot.isReplaced() {
		return s.refuse(kind, refusedReplaced)
	}
	return a
}

// prefetch calls ask in the background. It is a no-op if half of the slots are in use.
func (s *Server) prefetch(ctx context.Context, client netip.Addr, kind queryKind, ask func(context.Context)) {
	if s.queries.inUse() >= s.queries.limit/2 {
		return
	}
	slot := s.queries.admit(client, kind, time.Now())
	if slot == nil {
		return
	}
	s.goTracked(ctx, func(ctx context.Context) {
		defer slot.release()
		ask(ctx)
	})
}
