// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// streams are the open TCP connections, and the limiters that their clients share. An idle client
// connects again when it has a query (RFC 7766 section 6.2.3): so a connection is a slot whose age
// is the time since its last query or reply.
type streams struct {
	connections *limiter // open connections
	queries     *limiter // queries that wait for other servers or for the reply before them
	replies     *limiter // replies longer than smallReply that are not read yet
	closed      [numCloseReasons]prometheus.Counter

	acceptErrors prometheus.Counter

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	stopped bool // after stopReading
}

// closeReason is why the server closed a connection. It is the label of a metric.
type closeReason uint8

const (
	closedConnections closeReason = iota // a new one, because none was free, or one that gave way to another
	closedQueries                        // too many queries wait for a client that does not read
	closedReplies                        // no room for a reply
	closedSlow                           // the client did not read a reply
	numCloseReasons
)

// String returns the reason as a label of metrics.
func (r closeReason) String() string {
	return [...]string{"connections", "queries", "replies", "slow"}[r]
}

// newStreams returns the connections of a server, none, for valid limits. The metrics are registered
// with r unless that is nil.
//
// All queries that wait for other servers may have come over TCP, and as many may have their reply
// while their client does not read: only the latter fill the limiter of queries.
func newStreams(limits Limits, r prometheus.Registerer) *streams {
	auto := promauto.With(r)
	s := &streams{
		connections: newLimiter(limits.maxConnections()),
		queries:     newLimiter(2 * limits.MaxQueries),
		replies:     newLimiter(limits.maxReplies()),
		open:        map[net.Conn]struct{}{},
		acceptErrors: auto.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_dns_tcp_accept_errors_total",
			Help: "Failed attempts to accept a TCP connection, most often because no file descriptor is free.",
		}),
	}
	closed := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_tcp_closed_total",
		Help: "TCP connections that the server closed at a limit, by reason (connections, queries, replies, slow).",
	}, []string{"reason"})
	for reason := range s.closed {
		s.closed[reason] = closed.WithLabelValues(closeReason(reason).String())
	}
	for _, gauge := range []struct {
		name, help string
		of         *limiter
	}{
		{"dnsconfigurer_dns_tcp_connections", "Open TCP connections of clients.", s.connections},
		{"dnsconfigurer_dns_tcp_queries_in_flight",
			"Queries over TCP that wait for other servers, or for their client to read earlier replies.", s.queries},
		{"dnsconfigurer_dns_tcp_replies_waiting",
			"Replies over TCP of more than 512 octets that wait for their client to read them.", s.replies},
	} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, func() float64 { return float64(gauge.of.inUse()) })
	}
	return s
}

// add adds a connection, which the caller must remove. It returns nil if there is no slot for it, or
// the server is shutting down.
func (s *streams) add(c net.Conn, client netip.Addr) *slot {
	slot := s.connections.admit(client, kindPlain, time.Now())
	if slot == nil {
		s.closed[closedConnections].Inc()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		slot.release()
		return nil
	}
	s.open[c] = struct{}{}
	slot.whenReplaced(func() {
		s.closed[closedConnections].Inc()
		c.Close()
	})
	return slot
}

// remove removes a connection.
func (s *streams) remove(c net.Conn, slot *slot) {
	slot.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// stopReading ends all reads, now and later, except those of a message whose first octet was read:
// these end within messageTimeout. Replies can still be sent.
func (s *streams) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for c := range s.open {
		c.SetReadDeadline(time.Unix(1, 0))
	}
}

// hasStopped reports whether stopReading was called.
func (s *streams) hasStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// close closes all connections.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

// limitPoll is the pause between two attempts to take a slot when none is free. At most two
// goroutines for each connection poll, one that reads and one that sends. 1,024 goroutines that poll
// take 2 % of a core.
const limitPoll = 20 * time.Millisecond

// admitWithin takes a slot. It waits for it for at most messageTimeout, and returns nil if there is
// none.
func (l *limiter) admitWithin(ctx context.Context, client netip.Addr) *slot {
	if s := l.admit(client, kindPlain, time.Now()); s != nil {
		return s
	}
	poll, deadline := time.NewTicker(limitPoll), time.NewTimer(messageTimeout)
	defer poll.Stop()
	defer deadline.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-deadline.C:
			return nil
		case <-poll.C:
		}
		if s := l.admit(client, kindPlain, time.Now()); s != nil {
			return s
		}
	}
}
