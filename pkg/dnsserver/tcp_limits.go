// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Limits for TCP.
const (
	// DefaultMaxTCPQueries is the default of Limits.MaxTCPQueries. A budget gives one client at
	// most 38 % of them.
	DefaultMaxTCPQueries = 2048

	// DefaultMaxConnectionQueries is the default of Limits.MaxConnectionQueries, and as large
	// as the number of queries that a node cache sends over one connection.
	DefaultMaxConnectionQueries = 64

	// DefaultMaxReplyOctets and DefaultMaxClientReplyOctets are the defaults of
	// Limits.MaxReplyOctets and MaxClientReplyOctets. Without these bounds clients that do not
	// read their replies decide how much memory they take. DefaultMaxReplyOctets has room for 256
	// of the longest replies. A client has at most one packed reply for each of its connections,
	// see stream.send.
	DefaultMaxReplyOctets       = 16 << 20
	DefaultMaxClientReplyOctets = 1 << 20
)

// Bounds of Limits for TCP.
const (
	// MinReplyOctets is the smallest Limits.MaxReplyOctets and MaxClientReplyOctets: the longest
	// reply fits.
	MinReplyOctets = 1 << 20

	// MaxReplyOctets is the largest Limits.MaxReplyOctets and MaxClientReplyOctets.
	MaxReplyOctets = 1 << 30
)

// maxHeldAnswer is the longest reply whose answer stream.send holds while the socket of the
// connection is not ready, in octets. A longer answer is resolved again.
const maxHeldAnswer = 512

// limitPoll is the pause between two attempts to acquire units of a budget that is exhausted.
// At most two goroutines for each connection poll, one that reads and one that sends. 1,024
// goroutines that poll take 2 % of a core.
const limitPoll = 20 * time.Millisecond

// semaphore is a counting semaphore. Its capacity is the limit.
type semaphore chan struct{}

func (s semaphore) acquire() { s <- struct{}{} }
func (s semaphore) release() { <-s }

func (s semaphore) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// streamLimits are the budgets that TCP clients share.
type streamLimits struct {
	queries *budget // one unit for each query that stream.admit has admitted and whose reply is not yet written
	octets  *budget // one unit for each octet of the packed replies

	connectionQueries int // the largest number of queries of a connection

	closed [numCloseReasons]prometheus.Counter

	connections  prometheus.Gauge
	acceptErrors prometheus.Counter
}

// closeReason is why the server closed a connection. It is the label of a metric.
type closeReason uint8

const (
	closedConnections closeReason = iota // the limit of the client or of all clients, and no connection is idle
	closedQueries                        // the client has too many queries
	closedOctets                         // no room for a reply
	closedSlow                           // the client did not read a reply
	numCloseReasons
)

// String returns the reason as a label of metrics.
func (r closeReason) String() string {
	return [...]string{"connections", "queries", "octets", "slow"}[r]
}

// newStreamLimits returns the budgets for valid limits. Their metrics are registered with r unless
// that is nil.
func newStreamLimits(limits Limits, r prometheus.Registerer) streamLimits {
	l := streamLimits{
		queries: newBudget(limits.MaxTCPQueries), octets: newBudget(limits.MaxReplyOctets),
		connectionQueries: limits.MaxConnectionQueries,
	}
	l.octets.clientLimit = int64(limits.MaxClientReplyOctets)
	l.connections = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_dns_tcp_connections", Help: "Open TCP connections of clients.",
	})
	l.acceptErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_tcp_accept_errors_total",
		Help: "Failed attempts to accept a TCP connection, most often because no file descriptor is free.",
	})
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dnsconfigurer_dns_tcp_closed_total",
		Help: "TCP connections that the server closed at a limit, by reason (connections, queries, octets, slow). " +
			"Idle ones that are closed for new ones are not counted.",
	}, []string{"reason"})
	for reason := range l.closed {
		l.closed[reason] = closed.WithLabelValues(closeReason(reason).String())
	}
	if r != nil {
		r.MustRegister(closed, l.connections, l.acceptErrors,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "dnsconfigurer_dns_tcp_queries_in_flight",
				Help: "Queries over TCP that wait for their answer, or for their client to read it.",
			}, func() float64 { return float64(l.queries.inUse()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "dnsconfigurer_dns_tcp_reply_octets", Help: "Octets of replies over TCP that wait for their client to read them.",
			}, func() float64 { return float64(l.octets.inUse()) }))
	}
	return l
}

// acquireWithin acquires n units of a budget. It waits for them for at most messageTimeout.
func acquireWithin(ctx context.Context, b *budget, client netip.Addr, n int) (grant, bool) {
	g, reason := b.acquire(client, n)
	if reason == notRefused {
		return g, true
	}
	poll, deadline := time.NewTicker(limitPoll), time.NewTimer(messageTimeout)
	defer poll.Stop()
	defer deadline.Stop()
	for {
		select {
		case <-ctx.Done():
			return grant{}, false
		case <-deadline.C:
			return grant{}, false
		case <-poll.C:
		}
		if g, reason = b.acquire(client, n); reason == notRefused {
			return g, true
		}
	}
}
