// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxFailures is the number of consecutive failures after which a server is down. A single packet may be lost.
	maxFailures = 2
	// logInterval is the least time between two warnings about a server. A server
	// that answers every other query changes its state a thousand times a second.
	logInterval = 30 * time.Second
)

// server is a Server with its health and its connection. A query changes the health by atomic operations only: thousands
// of queries that wait at a mutex would hold the memory of their replies meanwhile.
type server struct {
	Server
	log     *slog.Logger
	created time.Time

	failures   atomic.Int32 // consecutive
	lastReply  atomic.Int64 // nanoseconds after created; 0: none yet
	silent     atomic.Bool  // it was silent while a query waited, and has not replied since
	looping    atomic.Bool  // in a forwarding loop
	loggedDown atomic.Bool  // the last log message says that the server is down
	probed     atomic.Bool  // a goroutine probes it until it replies

	mu       sync.Mutex
	loggedAt time.Time // time of the last warning
	conn     *streamConn

	udpMu sync.Mutex
	udp   *udpSocket // from which queries are sent; may be used up
}

// mayBeDown reports whether s is tried after the others and probed: because it is down, or because it was
// silent while a query waited.
func (s *server) mayBeDown() bool { return s.silent.Load() || s.isDown() }

// isDown is Status.Down.
func (s *server) isDown() bool { return s.failures.Load() >= maxFailures }

// recordReply records a reply with any rcode. It ends the backoff of s.
func (s *server) recordReply(now time.Time) {
	s.lastReply.Store(int64(now.Sub(s.created)))
	if s.failures.Load() != 0 || s.silent.Load() { // reading is cheaper for other CPUs
		s.failures.Store(0)
		s.silent.Store(false)
	}
	if s.loggedDown.Load() && s.loggedDown.CompareAndSwap(true, false) {
		s.log.Info("upstream server is up again", "server", s.Server)
	}
}

// repliedSince reports whether the server has replied to any query after t.
func (s *server) repliedSince(t time.Time) bool { return s.lastReply.Load() > int64(t.Sub(s.created)) }

// recordFailure records that s did not reply to a query. It logs that s is down, at most once in logInterval.
func (s *server) recordFailure(now time.Time, err error) {
	if s.failures.Add(1) < maxFailures || s.loggedDown.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.loggedAt) >= logInterval && s.loggedDown.CompareAndSwap(false, true) {
		s.loggedAt = now
		s.log.Warn("upstream server is down", "server", s.Server, "error", err)
	}
}

const (
	// The pause between two probes of a server that may be down doubles with each failure,
	// from minBackoff to maxBackoff.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// markSilent moves a silent server behind the others until it has replied, so that no further query waits for it.
func (c *Client) markSilent(s *server) {
	s.silent.Store(true)
	c.probeIfDown(s)
}

// probeIfDown probes a server that may be down, in the background until it replies, so that no
// client's query is needed to test the server. It is a no-op while Run is not running.
func (c *Client) probeIfDown(s *server) {
	if s.beginProbes() && !c.goInRun(func(ctx context.Context) { c.probeUntilUp(ctx, s) }) {
		s.probed.Store(false)
	}
}

// beginProbes reports whether the caller is to probe s.
func (s *server) beginProbes() bool { return s.mayBeDown() && s.probed.CompareAndSwap(false, true) }

// probeUntilUp probes s until it replies, is removed from the list, or ctx ends.
func (c *Client) probeUntilUp(ctx context.Context, s *server) {
	// Every reply to a query for the SOA record of the zone shows that the server is up.
	q, err := newQuery(new(dns.Msg).SetQuestion(c.cfg.Zone, dns.TypeSOA), nil)
	if err != nil {
		return // not reached: the zone is a valid name
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		_, _ = c.try(ctx, s, q) // which records the result
		isUnused := ctx.Err() != nil || !slices.Contains(*c.servers.Load(), s)
		if isUnused || !s.mayBeDown() {
			// A failure after the check has begun new probes, or does so after the Store.
			if s.probed.Store(false); isUnused || !s.beginProbes() {
				return
			}
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}
