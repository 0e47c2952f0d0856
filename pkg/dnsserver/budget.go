// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"sync"
)

// budget limits a resource that clients share, such as queries that wait for other servers.
// The share of a client shrinks with the square of what is free:
//
//	a client takes a unit only while held / limit < (free / limit)²
//
// So one client gets 38 % at most, and a client that holds nothing gets a unit as long as one
// is free. Of a limit of 4096 units, 121 clients that take all they can, one after the other,
// leave a unit for the next one: more than a node has pods. If a client could take as much as
// is free, 12 clients would leave one.
//
// A client is an address. The pods of a node may share an IPv6 prefix, so that a prefix would
// let one pod take the share of all.
type budget struct {
	limit       int64
	clientLimit int64 // what one client may hold at most, however much is free

	mu      sync.Mutex
	used    int64
	clients map[netip.Addr]int64 // what each client holds; clients that hold nothing have no entry
}

// newBudget returns a budget of limit units, less than 1<<31.
func newBudget(limit int) *budget {
	return &budget{limit: int64(limit), clientLimit: int64(limit), clients: map[netip.Addr]int64{}}
}

// grant is what a client holds of a budget. The zero grant holds nothing.
type grant struct {
	budget *budget
	client netip.Addr
	units  int64
}

// acquire takes n units for a client, or none. n is at least 1. The zero Addr is the client
// of work that has none.
func (b *budget) acquire(client netip.Addr, n int) (grant, rejection) {
	return b.take(client, int64(n), b.limit)
}

// acquireSpare is acquire for work that no client waits for, such as a prefetch. It leaves
// half of the budget free.
func (b *budget) acquireSpare(client netip.Addr, n int) (grant, rejection) {
	return b.take(client, int64(n), b.limit/2)
}

func (b *budget) take(client netip.Addr, n, limit int64) (grant, rejection) {
	client = client.Unmap()
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.clients[client]
	// The units before the last one of the n, and what is free then: n units are granted
	// exactly if n times one unit is.
	before, free := held+n-1, b.limit-b.used-(n-1)
	switch {
	case b.used+n > limit:
		return grant{}, refusedBudget
	case held+n > b.clientLimit, before*b.limit >= free*free:
		return grant{}, refusedClient
	}
	b.used += n
	b.clients[client] = held + n
	return grant{budget: b, client: client, units: n}, granted
}

// release returns the units to the budget. Only the first call has an effect. It must not be
// called concurrently for the same grant.
func (g *grant) release() {
	b := g.budget
	if b == nil {
		return
	}
	g.budget = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= g.units
	if b.clients[g.client] -= g.units; b.clients[g.client] == 0 {
		delete(b.clients, g.client)
	}
}

// keep returns all but n units to the budget. Like release it must not be called concurrently
// for the same grant.
func (g *grant) keep(n int) {
	if b, excess := g.budget, g.units-int64(n); b != nil && excess > 0 {
		rest := grant{budget: b, client: g.client, units: excess}
		rest.release()
		g.units -= excess
	}
}

// inUse returns the units that are taken.
func (b *budget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.used)
}
