// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"
)

// budgetKind is a kind of query that waits for other servers. Each kind has its own budget, so that
// queries for names of the cluster zone are forwarded while the servers of all other names do
// not answer, and the reverse.
type budgetKind uint8

const (
	budgetOther   budgetKind = iota // all other names
	budgetCluster                   // names of the cluster zone, which a node cache forwards
	budgetReverse                   // reverse names
	budgetSearch                    // expansions of search lists, and each of their subqueries
	numBudgetKinds
)

// String returns the kind as a label of metrics. The label of budgetOther is older than the constant,
// and stays for existing alerts.
func (kind budgetKind) String() string {
	return [...]string{"plain", "cluster", "reverse", "search"}[kind]
}

// Defaults of Limits.
const (
	// DefaultMaxConcurrent is the default of Limits.MaxConcurrent, and
	// DefaultNodeMaxConcurrent that of a node cache. A query that waits takes 32 kB: two
	// goroutines, a socket and a buffer. 4096 of them take 125 MiB, nearly the whole memory
	// limit of a node cache, 128 MiB.
	DefaultMaxConcurrent     = 4096
	DefaultNodeMaxConcurrent = 2048

	// The defaults of Limits.ClusterShare, ReverseShare and SearchShare, in percent.
	DefaultClusterShare = 25
	DefaultReverseShare = 10
	DefaultSearchShare  = 25
)

// Bounds of Limits.
const (
	// MinConcurrent is the smallest Limits.MaxConcurrent: one slot for each percent.
	MinConcurrent = 100

	// MaxConcurrent is the largest Limits.MaxConcurrent: most queries that wait hold a UDP source
	// port, and there are 65535 ports.
	MaxConcurrent = 65535

	// MaxShares is the largest sum of the shares of Limits, in percent. The rest is for
	// names outside the cluster.
	MaxShares = 90
)

// Limits bound the queries that wait for other servers, and the queries over TCP. Zero values
// select the defaults. At the limit MaxConcurrent or SearchRate a query gets SERVFAIL or a stale
// answer at once, or its search list is not expanded. The limits for TCP delay the client, or close
// its connection.
type Limits struct {
	// MaxConcurrent is the number of queries of all kinds that may wait at a time, from
	// MinConcurrent to the constant MaxConcurrent.
	MaxConcurrent int

	// ClusterShare, ReverseShare and SearchShare are the parts of MaxConcurrent for names of
	// the cluster zone, for reverse names, and for expansions of search lists, in percent.
	// The rest is for all other names. Only a node cache forwards names of the cluster zone:
	// a server with a zone has no ClusterShare.
	ClusterShare, ReverseShare, SearchShare int

	// SearchRate is the number of queries to other servers per second that the search lists
	// of one client may cause. SearchBurst is the number that they may cause at once, at
	// least MinSearchBurst.
	SearchRate, SearchBurst int

	// MaxTCPQueries is the number of queries over TCP of all clients that may be in flight:
	// they wait for their answer, or for their client to read it. From MinConcurrent to the
	// constant MaxConcurrent. MaxConnectionQueries is the number of those of one connection.
	// At a limit the next query of a connection waits, and the connection is not read. If the
	// share of the client in MaxTCPQueries is used up for 5 s, the connection is closed.
	MaxTCPQueries, MaxConnectionQueries int

	// MaxReplyOctets is the number of octets of the replies over TCP that may wait for their
	// clients to read them, and MaxClientReplyOctets the number of those of one client. From
	// MinReplyOctets to the constant MaxReplyOctets. If there is no room for a reply for 5 s, the
	// connection of its query is closed.
	MaxReplyOctets, MaxClientReplyOctets int
}

// setDefaults validates l and replaces zero values.
func (l *Limits) setDefaults(nodeCache bool) error {
	if nodeCache {
		l.MaxConcurrent = cmp.Or(l.MaxConcurrent, DefaultNodeMaxConcurrent)
		l.ClusterShare = cmp.Or(l.ClusterShare, DefaultClusterShare)
	}
	l.MaxConcurrent = cmp.Or(l.MaxConcurrent, DefaultMaxConcurrent)
	l.ReverseShare = cmp.Or(l.ReverseShare, DefaultReverseShare)
	l.SearchShare = cmp.Or(l.SearchShare, DefaultSearchShare)
	l.SearchRate = cmp.Or(l.SearchRate, DefaultSearchRate)
	l.SearchBurst = cmp.Or(l.SearchBurst, DefaultSearchBurst)
	switch {
	case l.MaxConcurrent < MinConcurrent || l.MaxConcurrent > MaxConcurrent:
		return fmt.Errorf("MaxConcurrent %d: want %d to %d", l.MaxConcurrent, MinConcurrent, MaxConcurrent)
	case !nodeCache && l.ClusterShare != 0:
		return fmt.Errorf("ClusterShare %d: want 0: only a node cache forwards names of the cluster zone", l.ClusterShare)
	case min(l.ClusterShare, l.ReverseShare, l.SearchShare) < 0 || l.shares() > MaxShares:
		return fmt.Errorf("ClusterShare %d, ReverseShare %d, SearchShare %d: want percentages from 1, with a sum of at most %d",
			l.ClusterShare, l.ReverseShare, l.SearchShare, MaxShares)
	}
	if err := l.setStreamDefaults(); err != nil {
		return err
	}
	if l.SearchRate < 1 || l.SearchBurst < MinSearchBurst {
		return fmt.Errorf("SearchRate %d, SearchBurst %d: want at least 1 and %d", l.SearchRate, l.SearchBurst, MinSearchBurst)
	}
	return nil
}

// setStreamDefaults validates the limits for TCP and replaces zero values.
func (l *Limits) setStreamDefaults() error {
	for _, v := range []struct {
		field                     string
		value                     *int
		defaultValue, least, most int
	}{
		{"MaxTCPQueries", &l.MaxTCPQueries, DefaultMaxTCPQueries, MinConcurrent, MaxConcurrent},
		{"MaxConnectionQueries", &l.MaxConnectionQueries, DefaultMaxConnectionQueries, 1, MaxConcurrent},
		{"MaxReplyOctets", &l.MaxReplyOctets, DefaultMaxReplyOctets, MinReplyOctets, MaxReplyOctets},
		{"MaxClientReplyOctets", &l.MaxClientReplyOctets, DefaultMaxClientReplyOctets, MinReplyOctets, MaxReplyOctets},
	} {
		*v.value = cmp.Or(*v.value, v.defaultValue)
		if *v.value < v.least || *v.value > v.most {
			return fmt.Errorf("%s %d: want %d to %d", v.field, *v.value, v.least, v.most)
		}
	}
	return nil
}

func (l *Limits) shares() int { return l.ClusterShare + l.ReverseShare + l.SearchShare }

// slotPools are the budgets of queries that wait for other servers.
type slotPools [numBudgetKinds]*slotPool

// newSlotPools returns the budgets for valid limits.
func newSlotPools(l Limits) slotPools {
	var s slotPools
	for kind, share := range map[budgetKind]int{budgetCluster: l.ClusterShare, budgetReverse: l.ReverseShare,
		budgetSearch: l.SearchShare, budgetOther: 100 - l.shares()} {
		s[kind] = newSlotPool(l.MaxConcurrent * share / 100)
	}
	return s
}

// admit acquires a slot for r, which waits for other servers. It returns a function that waits
// and releases the slot; the caller must call it. If there is no slot, wait is nil and a is the
// answer.
func (s *Server) admit(client netip.Addr, r result) (a answer, wait func(context.Context) answer) {
	slot, reason := s.slotPools[r.budgetKind].admit(client, time.Now())
	if reason == notRefused {
		return answer{}, func(ctx context.Context) answer { return s.awaitOrStale(ctx, r, slot) }
	}
	refused := s.refuse(r.budgetKind, reason)
	if r.stale != nil {
		return r.stale(), nil
	}
	return refused, nil
}

// staleDelay is how long a client waits before it gets a stale answer (RFC 8767 section 5).
const staleDelay = 1800 * time.Millisecond

// awaitOrStale waits for r and releases its slot. If r has a stale answer, awaitOrStale returns
// that answer when the other servers fail or take longer than staleDelay. The query then continues
// with its slot, so that the next client gets the new answer.
func (s *Server) awaitOrStale(ctx context.Context, r result, slot *slot) answer {
	if r.stale == nil {
		return s.awaitInSlot(ctx, r, slot)
	}
	fresh := make(chan answer, 1)
	s.goTracked(ctx, func(ctx context.Context) { fresh <- s.awaitInSlot(ctx, r, slot) })
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

// awaitInSlot waits for r until the slot is replaced, and releases it.
func (s *Server) awaitInSlot(ctx context.Context, r result, slot *slot) answer {
	defer slot.release()
	ctx, cancel := slot.use(ctx)
	defer cancel()
	a := r.wait(ctx)
	switch {
	case !a.failed():
		slot.recordReply()
	case slot.isReplaced():
		return s.refuse(r.budgetKind, refusedReplaced)
	}
	return a
}

// prefetch calls ask in the background. It is a no-op if half of the slots are in use, or the
// share of the client is used up.
func (s *Server) prefetch(ctx context.Context, client netip.Addr, kind budgetKind, ask func(context.Context)) {
	g, reason := s.slotPools[kind].acquireSpare(client, 1)
	if reason != notRefused {
		return
	}
	s.goTracked(ctx, func(ctx context.Context) {
		defer g.release()
		ask(ctx)
	})
}
