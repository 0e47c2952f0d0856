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

// Why a query has no reply. Every other error is that of the network: the server
// cannot be reached.
var (
	// ErrTimeout: the library's patience ended first.
	ErrTimeout = errors.New("timeout")

	// ErrOvertaken: musl asks all servers at once, and another one was faster.
	ErrOvertaken = errors.New("overtaken")

	// ErrMalformed: musl makes a packet that is no query of a name with two
	// final dots, as that in the search domain ".". Servers do not answer it.
	ErrMalformed = errors.New("malformed")
)

// record keeps the queries of a lookup in the order in which they were sent.
type record struct {
	mu      sync.Mutex // guards what follows; replies come at any time
	queries []Query
}

// sent makes a place for q, which is about to be sent, and returns its index.
func (r *record) sent(q Query) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queries = append(r.queries, q)
	return len(r.queries) - 1
}

// came notes what became of the query at index i.
func (r *record) came(i int, reply *dns.Msg, err error, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.queries[i]
	q.Reply, q.Err, q.Took = reply, err, took
}

// exchange sends the message of q, which has the place i, and notes the reply.
func (r *record) exchange(ctx context.Context, n Network, i int, q Query, msg *dns.Msg) (*dns.Msg, error) {
	send := n.UDP
	if q.TCP {
		send = n.TCP
	}
	start := time.Now()
	reply, err := send(ctx, q.Server, msg)
	took := time.Since(start)
	var late interface{ Timeout() bool }
	switch {
	case err == nil && isReply(reply, msg):
	case err == nil: // one to somebody else's question is none
		reply, err = nil, ErrTimeout
	case context.Cause(ctx) != nil:
		reply, err = nil, context.Cause(ctx)
	case errors.As(err, &late) && late.Timeout():
		reply, err = nil, ErrTimeout
	default:
		reply = nil
	}
	r.came(i, reply, err, took)
	return reply, err
}

func isReply(m, query *dns.Msg) bool {
	return m != nil && len(m.Question) == 1 && m.Question[0].Qtype == query.Question[0].Qtype && strings.EqualFold(m.Question[0].Name, query.Question[0].Name)
}

// message returns the query for a name, which must be one that fits.
func message(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype) // with RD, as both libraries set it
	return m
}

// patience is a context that ends with ErrTimeout.
func patience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, ErrTimeout)
}

// addressOf returns the address in an A or AAAA record.
func addressOf(rr dns.RR) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		a, ok := netip.AddrFromSlice(rr.A.To4())
		return a, ok
	case *dns.AAAA:
		return netip.AddrFromSlice(rr.AAAA.To16())
	}
	return netip.Addr{}, false
}
