// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Reasons for a query without a reply. Any other error comes from the network: the
// server is unreachable.
var (
	// ErrTimeout: the library stopped waiting.
	ErrTimeout = errors.New("timeout")

	// ErrOvertaken: musl queries all servers at once, and another one replied first.
	ErrOvertaken = errors.New("overtaken")

	// ErrMalformed: for a name with two final dots, such as one in the search domain
	// ".", musl 1.2.3 sends a packet that is not a query. Servers do not reply to it.
	ErrMalformed = errors.New("malformed")
)

// Query is a query as it was sent.
type Query struct {
	Name   string // with the final dot
	Type   uint16
	Server netip.Addr
	TCP    bool

	Reply *dns.Msg      // nil: no reply that the library accepts
	Err   error         // why Reply is nil: [ErrTimeout], [ErrOvertaken], [ErrMalformed] or the network's error
	Took  time.Duration // from sending to the reply or the error
}

// queryLog collects the queries of a lookup in the order sent.
type queryLog struct {
	mu      sync.Mutex // guards queries; replies are recorded concurrently
	queries []Query
}

// add appends a query that is about to be sent and returns its index.
func (l *queryLog) add(q Query) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries = append(l.queries, q)
	return len(l.queries) - 1
}

// complete records the result of the query at index i.
func (l *queryLog) complete(i int, reply *dns.Msg, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queries[i]
	q.Reply, q.Err, q.Took = reply, err, took
}

// exchange sends the message of q, which is at index i, and records the reply.
func (l *queryLog) exchange(ctx context.Context, n Network, i int, q Query, msg *dns.Msg) (*dns.Msg, error) {
	send := n.UDP
	if q.TCP {
		send = n.TCP
	}
	start := time.Now()
	reply, err := send(ctx, q.Server, msg)
	took := time.Since(start)
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil && isReply(reply, msg):
	case err == nil: // the reply is to another question
		reply, err = nil, ErrTimeout
	case context.Cause(ctx) != nil:
		reply, err = nil, context.Cause(ctx)
	case errors.As(err, &timeout) && timeout.Timeout():
		reply, err = nil, ErrTimeout
	default:
		reply = nil
	}
	l.complete(i, reply, err, took)
	return reply, err
}

func isReply(m, query *dns.Msg) bool {
	return m != nil && len(m.Question) == 1 && m.Question[0].Qtype == query.Question[0].Qtype &&
		strings.EqualFold(m.Question[0].Name, query.Question[0].Name)
}

// newMessage returns the query for a name that fits into a question. RD is set, as all
// libraries do.
func newMessage(name string, qtype uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(name, qtype)
}

// withTimeout returns a context that ends with ErrTimeout after d.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, ErrTimeout)
}

// RecordAddr returns the address in an A or AAAA record.
func RecordAddr(rr dns.RR) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		a, ok := netip.AddrFromSlice(rr.A.To4())
		return a, ok
	case *dns.AAAA:
		return netip.AddrFromSlice(rr.AAAA.To16())
	}
	return netip.Addr{}, false
}
