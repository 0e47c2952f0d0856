// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"sync"

	"github.com/miekg/dns"
)

// group has the queries in flight, by their wire form. Callers with equal queries share one.
// singleflight.Group would not cancel a flight that all callers have left. The zero value has no
// flights.
type group struct {
	mu     sync.Mutex
	byWire map[string]*flight
}

// flight is a query in flight.
type flight struct {
	callers int // guarded by group.mu
	cancel  context.CancelFunc

	done  chan struct{} // closed when reply and err are set
	reply *dns.Msg
	err   error
}

// join returns the flight of a query. If there is none, resolve is called in a goroutine: its
// context has the values of ctx, and ends when all callers have left. The caller must call leave.
func (g *group) join(ctx context.Context, wire string, resolve func(context.Context) (*dns.Msg, error)) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	if shared := g.byWire[wire]; shared != nil {
		shared.callers++
		return shared
	}
	// All callers share the flight: it continues after the first one has left.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := &flight{callers: 1, cancel: cancel, done: make(chan struct{})}
	if g.byWire == nil {
		g.byWire = map[string]*flight{}
	}
	g.byWire[wire] = begun
	go func() {
		begun.reply, begun.err = resolve(ctx)
		close(begun.done)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.endLocked(wire, begun)
	}()
	return begun
}

// leave is called when a caller no longer waits.
func (g *group) leave(wire string, left *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left.callers--; left.callers == 0 {
		g.endLocked(wire, left)
	}
}

// endLocked cancels a flight. The next query begins another one.
func (g *group) endLocked(wire string, ended *flight) {
	ended.cancel()
	if g.byWire[wire] == ended {
		delete(g.byWire, wire)
	}
}
