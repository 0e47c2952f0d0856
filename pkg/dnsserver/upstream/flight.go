// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"

	"github.com/miekg/dns"
)

// group has the queries in flight, by their wire form. Callers with equal queries share one. The first
// caller sends the query itself: a goroutine for each query would cost 10 µs and 8 kB. singleflight.Group
// would let the others fail with the first one. The zero value has no flights.
type group struct {
	mu     sync.Mutex
	byWire map[string]*flight
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
		f, first := g.join(wire)
		if first {
			f.reply, f.err = resolve()
			f.left = ctx.Err() != nil
			g.end(wire, f)
			return f.reply, f.err
		}
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

// join returns the flight of a query. first is set for the caller that must call end.
func (g *group) join(wire string) (f *flight, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.byWire[wire]; f != nil {
		return f, false
	}
	if g.byWire == nil {
		g.byWire = map[string]*flight{}
	}
	f = &flight{done: make(chan struct{})}
	g.byWire[wire] = f
	return f, true
}

// end passes the result to the other callers. The next query begins another flight.
func (g *group) end(wire string, f *flight) {
	close(f.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byWire, wire)
}
