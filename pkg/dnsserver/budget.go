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
// is free. Example: of the 819 slots that a node cache has for names outside the cluster, 53
// clients can take as many as they get, one after the other, and the next client still gets one.
// Without the square the slots would be used up after 10 clients.
//
// A client is an address, see clientKey. The pods of a node may share an IPv6 prefix: with shares
// for prefixes one pod could take the share of all.
type budget struct {
	limit       int64
	clientLimit int64 // the units that one client may hold, even if more are free

	mu      sync.Mutex
	used    int64
	clients map[netip.Addr]int64 // units of each client; a client without units has no entry
}

// clientKey returns the address that all limits for each client use: an IPv4-mapped address is the
// IPv4 address, and the zone of a link-local address, which is the interface, is left out.
func clientKey(client netip.Addr) netip.Addr { return client.Unmap().WithZone("") }

// newBudget returns a budget of limit units, less than 1<<31.
func newBudget(limit int) *budget {
	return &budget{limit: int64(limit), clientLimit: int64(limit), clients: map[netip.Addr]int64{}}
}

// grant holds units of a budget for a client. The zero grant holds none.
type grant struct {
	budget *budget
	client netip.Addr
	units  int64
}

// acquire acquires n units for a client, or returns why it acquires none. n is at least 1. A client
// whose address is unknown is the zero Addr.
func (b *budget) acquire(client netip.Addr, n int) (grant, refusalReason) {
	return b.acquireUpTo(client, int64(n), b.limit)
}

// acquireSpare is acquire for work that no client waits for, such as a prefetch. It leaves
// half of the units to clients.
func (b *budget) acquireSpare(client netip.Addr, n int) (grant, refusalReason) {
	return b.acquireUpTo(client, int64(n), b.limit/2)
}

// acquireUpTo acquires n units if at most limit units are then in use.
func (b *budget) acquireUpTo(client netip.Addr, n, limit int64) (grant, refusalReason) {
	client = clientKey(client)
	b.mu.Lock()
	defer b.mu.Unlock()
	held := b.clients[client]
	// The n units are granted if n grants of one unit would be: the formula is for the last of
	// them, when the client holds the other n-1 already.
	before, free := held+n-1, b.limit-b.used-(n-1)
	switch {
	case b.used+n > limit:
		return grant{}, refusedBudget
	case held+n > b.clientLimit, before*b.limit >= free*free:
		return grant{}, refusedClient
	}
	b.used += n
	b.clients[client] = held + n
	return grant{budget: b, client: client, units: n}, notRefused
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
	b.removeLocked(g.client, g.units)
}

// moveTo takes all units from the client and returns them as a grant of another one, which may then
// hold more than its share. Like release it must not be called concurrently for the same grant.
func (g *grant) moveTo(client netip.Addr) grant {
	b := g.budget
	g.budget = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(g.client, g.units)
	client = clientKey(client)
	b.clients[client] += g.units
	return grant{budget: b, client: client, units: g.units}
}

// removeLocked subtracts units from the number that a client holds.
func (b *budget) removeLocked(client netip.Addr, n int64) {
	if b.clients[client] -= n; b.clients[client] == 0 {
		delete(b.clients, client)
	}
}

// heldBy returns the units that a client holds.
func (b *budget) heldBy(client netip.Addr) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clients[clientKey(client)]
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

// inUse returns the number of units that all clients hold.
func (b *budget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.used)
}
