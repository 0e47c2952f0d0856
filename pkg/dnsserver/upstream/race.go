// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// hedgeDelay is how long a server may be silent before the next one is tried as well. A resolver needs less for
	// most names. musl repeats a query after 2.5 seconds, glibc after five.
	hedgeDelay = 200 * time.Millisecond

	// maxTries is how many servers a query waits for at the same time. Each try has a goroutine.
	maxTries = 2

	// rounds is how often a server that does not reply is tried per query. A packet may have been lost.
	rounds = 2
)

// errOvertaken is the cause for which a try is canceled after another server has replied.
var errOvertaken = errors.New("another server has replied")

// race sends one query to several servers.
type race struct {
	try        func(context.Context, *server) (*dns.Msg, error)
	markSilent func(*server)

	again      bool      // this is not the first round
	list       []*server // not yet tried in this round
	current    *server   // was tried last; nil: none is left
	pending    []pending // tries without a result, the oldest first
	results    chan result
	unanswered []*server // did not reply in this round

	fallback *dns.Msg // the first reply that is not conclusive
	last     error    // of a server that did not reply
}

// pending is a try without a result.
type pending struct {
	server *server
	cancel context.CancelCauseFunc
}

// result is the result of a try.
type result struct {
	server *server
	reply  *dns.Msg
	err    error
}

// run tries the servers in order until a reply is conclusive. If there is none, it returns the
// first other reply, or the last error.
func (r *race) run(ctx context.Context, list []*server) (*dns.Msg, error) {
	r.unanswered = list
	for range rounds {
		round := r.round
		if len(r.unanswered) == 1 {
			round = r.single
		}
		if m, err := round(ctx); m != nil || err != nil {
			return m, err
		}
		r.again = true
	}
	if r.fallback != nil {
		return r.fallback, nil
	}
	return nil, fmt.Errorf("no upstream server replied: %w", r.last)
}

// single tries the only unanswered server: there is no other one to try meanwhile.
func (r *race) single(ctx context.Context) (*dns.Msg, error) {
	s := r.unanswered[0]
	r.unanswered = nil
	if ctx.Err() != nil || r.fallback != nil && s.mayBeDown() {
		return nil, nil
	}
	m, err := r.try(ctx, s)
	return r.record(result{s, m, err})
}

// round tries each unanswered server once. It tries the next one when the last one has failed,
// or was silent for hedgeDelay. It returns the first conclusive reply or error, if there is one.
func (r *race) round(ctx context.Context) (*dns.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errOvertaken)
	r.list, r.unanswered = r.unanswered, nil
	r.results = make(chan result, len(r.list)) // a late result blocks no goroutine
	silence := time.NewTimer(hedgeDelay)
	defer silence.Stop()
	for next := true; ; {
		if next && ctx.Err() == nil {
			r.tryNext(ctx)
		}
		if len(r.pending) == 0 {
			return nil, nil
		}
		since := time.Now()
		silence.Reset(hedgeDelay)
		select {
		case <-silence.C:
			next = r.recordSilence(since)
		case t := <-r.results:
			if m, err := r.record(t); m != nil || err != nil {
				return m, err
			}
			next = len(r.pending) == 0 || t.server == r.current
		}
	}
}

// recordSilence marks the server that was tried last as silent, unless it has replied to any query
// since a time. It reports whether to try the next server now, which cancels the oldest of maxTries
// pending tries. In the second round no try is canceled, so that a slow server has time to reply.
func (r *race) recordSilence(since time.Time) bool {
	if r.current == nil || r.current.repliedSince(since) {
		return false
	}
	r.markSilent(r.current)
	return !r.again || len(r.pending) < maxTries
}

// tryNext tries the next server. A server that may be down is left out if another one has replied.
// Above maxTries the oldest try is canceled: its server was silent for the longest time.
func (r *race) tryNext(ctx context.Context) {
	r.current = nil
	for len(r.list) > 0 && r.current == nil {
		if s := r.list[0]; r.fallback == nil || !s.mayBeDown() {
			r.current = s
		}
		r.list = r.list[1:]
	}
	s, results := r.current, r.results
	if s == nil {
		return
	}
	if len(r.pending) >= maxTries {
		r.pending[0].cancel(errOvertaken)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r.pending = append(r.pending, pending{s, cancel})
	try := func() {
		defer cancel(nil)
		m, err := r.try(ctx, s)
		results <- result{s, m, err}
	}
	if len(r.pending) == 1 && len(r.list) == 0 {
		try() // there is no other server to try meanwhile
		return
	}
	go try()
}

// record records the result of a try. It returns a conclusive reply or error.
func (r *race) record(t result) (*dns.Msg, error) {
	r.pending = slices.DeleteFunc(r.pending, func(p pending) bool { return p.server == t.server })
	err := t.err
	if err != nil {
		err = fmt.Errorf("%v: %w", t.server.Server, err)
	}
	switch {
	case err == nil && isConclusive(t.reply):
		return t.reply, nil
	case err == nil:
		r.fallback = cmp.Or(r.fallback, t.reply)
	case errors.Is(err, ErrMalformed), errors.Is(err, errPanic):
		return nil, err // the next server would resolve the same records, or meet the same fault
	default:
		if r.last == nil || !errors.Is(err, context.Canceled) {
			r.last = err
		}
		r.unanswered = append(r.unanswered, t.server)
	}
	return nil, nil
}

// isConclusive reports whether no further server is tried after the reply m. The rcodes
// are those after which the C libraries try the next server.
func isConclusive(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented:
		return false
	}
	return !m.Truncated
}

// group has the queries in flight, by their wire form. Callers with equal queries share one. The first
// caller sends the query itself: a goroutine for each query would cost 10 µs and 8 kB. singleflight.Group
// would let the others fail with the first one, and have the callers wait with their replies for one mutex.
type group struct {
	inFlight sync.Map // string to *flight
}

// flight is a query in flight.
type flight struct {
	done  chan struct{} // closed when the fields below are set
	reply *dns.Msg
	err   error
	left  bool // the first caller has left before the reply
}

// do calls resolve, or waits for the result of another caller with the same query. If that caller leaves,
// a caller that still waits begins again: the server has the answer by then, or is about to.
func (g *group) do(ctx context.Context, wire string, resolve func() (*dns.Msg, error)) (*dns.Msg, error) {
	for {
		f := &flight{done: make(chan struct{})}
		other, joined := g.inFlight.LoadOrStore(wire, f)
		if !joined {
			f.reply, f.err = resolve()
			f.left = ctx.Err() != nil
			close(f.done)
			g.inFlight.Delete(wire) // the next query begins another flight
			return f.reply, f.err
		}
		f = other.(*flight)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
			if !f.left {
				return f.reply, f.err
			}
		}
	}
}
