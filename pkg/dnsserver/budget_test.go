// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// clientAddr returns the address of the i-th client.
func clientAddr(i int) netip.Addr {
	var b [16]byte
	copy(b[:], []byte{0xfd, 0, 0, 0x10})
	binary.BigEndian.PutUint32(b[12:], uint32(i))
	return netip.AddrFrom16(b)
}

// takeAll takes single units for a client until it is refused.
func takeAll(b *budget, client netip.Addr) (grants []grant, reason refusalReason) {
	for {
		g, reason := b.acquire(client, 1)
		if reason != notRefused {
			return grants, reason
		}
		grants = append(grants, g)
	}
}

// expectUnused fails the test unless nothing of the budget is taken, and it has forgotten
// every client.
func expectUnused(t *testing.T, b *budget) {
	t.Helper()
	if b.inUse() != 0 || len(b.clients) != 0 {
		t.Errorf("%d units are in use, and %d clients have an entry", b.inUse(), len(b.clients))
	}
}

// TestBudget_GreedyClients: clients take all they can, one after the other.
func TestBudget_GreedyClients(t *testing.T) {
	for _, tt := range []struct{ limit, first, clients int }{
		{1, 1, 1},
		{2, 1, 2},
		{64, 25, 16},
		{1024, 392, 61},
		{4096, 1565, 122},
	} {
		b := newBudget(tt.limit)
		var all []grant
		clients, reason := 0, notRefused
		for ; b.inUse() < tt.limit; clients++ {
			var grants []grant
			grants, reason = takeAll(b, clientAddr(clients))
			if clients == 0 && len(grants) != tt.first {
				t.Errorf("limit %d: the first client took %d units, want %d", tt.limit, len(grants), tt.first)
			}
			all = append(all, grants...)
		}
		if clients != tt.clients || reason != refusedBudget {
			t.Errorf("limit %d: %d clients took all units, the last one was refused because of %v, want %d and budget",
				tt.limit, clients, reason, tt.clients)
		}
		for i := range all {
			all[i].release()
		}
		expectUnused(t, b)
	}
}

// TestBudget_Share: when a client has all of its share, another one gets as much as the rule
// gives, and the first one gets more only after it has returned some.
func TestBudget_Share(t *testing.T) {
	b := newBudget(100)
	first, reason := takeAll(b, clientAddr(1))
	if len(first) != 39 || reason != refusedClient {
		t.Fatalf("one client took %d of 100 units, then %v, want 39 and client", len(first), reason)
	}
	second, _ := takeAll(b, clientAddr(2))
	if len(second) != 19 {
		t.Errorf("a second client took %d units, want 19", len(second))
	}
	first[0].release()
	if _, reason := b.acquire(clientAddr(1), 1); reason != refusedClient {
		t.Errorf("the first client holds more than the second one, and was %v", reason)
	}
	for i := range first {
		first[i].release()
		first[i].release() // without effect
	}
	if again, _ := takeAll(b, clientAddr(1)); len(again) != 29 {
		t.Errorf("the first client took %d units again, want 29", len(again))
	}
}

// TestBudget_LargeUnits: the share of a client of 16 MiB is 6,408,327 octets.
func TestBudget_LargeUnits(t *testing.T) {
	const share = 6_408_327
	for n, want := range map[int]refusalReason{share: notRefused, share + 1: refusedClient, 16<<20 + 1: refusedBudget} {
		b := newBudget(16 << 20)
		g, reason := b.acquire(clientAddr(1), n)
		if reason != want {
			t.Errorf("%d octets: %v, want %v", n, reason, want)
		}
		g.release()
		expectUnused(t, b)
	}
}

// TestBudget_Client: an IPv4-mapped address is the IPv4 address, a link-local address is the same client
// in all zones, and the addresses of an IPv6 prefix are clients of their own.
func TestBudget_Client(t *testing.T) {
	b := newBudget(100)
	takeAll(b, netip.MustParseAddr("10.244.1.7"))
	if _, reason := b.acquire(netip.MustParseAddr("::ffff:10.244.1.7"), 1); reason != refusedClient {
		t.Errorf("the IPv4-mapped address was %v", reason)
	}
	takeAll(b, netip.MustParseAddr("fe80::7%2"))
	if _, reason := b.acquire(netip.MustParseAddr("fe80::7%3"), 1); reason != refusedClient {
		t.Errorf("the address in another zone was %v", reason)
	}
	for _, addr := range []netip.Addr{netip.MustParseAddr("10.244.1.8"), clientAddr(1), clientAddr(2), {}} {
		if _, reason := b.acquire(addr, 1); reason != notRefused {
			t.Errorf("%v was refused: %v", addr, reason)
		}
	}
}

// TestBudget_Spare: work that no client waits for leaves half of the budget to clients.
func TestBudget_Spare(t *testing.T) {
	b := newBudget(100)
	for i := range 100 {
		_, reason := b.acquireSpare(clientAddr(i), 1)
		if want := map[bool]refusalReason{true: notRefused, false: refusedBudget}[i < 50]; reason != want {
			t.Errorf("prefetch %d: %v, want %v", i+1, reason, want)
		}
	}
	for i := range 50 {
		if _, reason := b.acquire(clientAddr(200+i), 1); reason != notRefused {
			t.Errorf("query %d: %v", i+1, reason)
		}
	}
	if _, reason := newBudget(100).acquireSpare(clientAddr(1), 51); reason != refusedBudget {
		t.Errorf("51 spare units of 100: %v", reason)
	}
}

// TestBudget_Property has random clients take and return random numbers of units.
func TestBudget_Property(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + rng.IntN(500)
		b := newBudget(limit)
		var held []grant
		byClient := map[netip.Addr]int64{}
		for range 500 {
			if len(held) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(held))
				g := &held[i]
				if byClient[g.client] -= g.units; byClient[g.client] == 0 {
					delete(byClient, g.client)
				}
				g.release()
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
			client, n := clientAddr(rng.IntN(1+rng.IntN(300))), 1+rng.IntN(1+rng.IntN(limit))
			before := b.inUse()
			oneByOne := singleUnits(b, client, n)
			g, reason := b.acquire(client, n)
			if got := reason == notRefused; got != oneByOne {
				t.Fatalf("seed %d: %d units at once: %v, one by one: %v", seed, n, reason, oneByOne)
			}
			if reason == notRefused {
				held = append(held, g)
				byClient[client] += int64(n)
			}
			switch {
			case before < limit && n == 1 && byClient[client] == 0:
				t.Fatalf("seed %d: a client without units got none of %d", seed, limit-before)
			case b.inUse() > limit, byClient[client]*2 > int64(limit)+1:
				t.Fatalf("seed %d: %d of %d units are in use, the client has %d", seed, b.inUse(), limit, byClient[client])
			case !maps.Equal(b.clients, byClient):
				t.Fatalf("seed %d: %d clients have an entry, want %d", seed, len(b.clients), len(byClient))
			}
		}
		for i := range held {
			held[i].release()
		}
		expectUnused(t, b)
	}
}

// singleUnits reports whether a client can take n single units. It releases them.
func singleUnits(b *budget, client netip.Addr, n int) bool {
	var grants []grant
	reason := notRefused
	for len(grants) < n && reason == notRefused {
		var g grant
		if g, reason = b.acquire(client, 1); reason == notRefused {
			grants = append(grants, g)
		}
	}
	for i := range grants {
		grants[i].release()
	}
	return reason == notRefused
}

// TestBudget_Concurrent: nothing is lost among concurrent clients.
func TestBudget_Concurrent(t *testing.T) {
	b := newBudget(64)
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for range 2000 {
				if g, reason := b.acquire(clientAddr(i%8), 1+i%3); reason == notRefused {
					if b.inUse() > 64 {
						t.Error("more units are in use than the limit")
					}
					g.release()
				}
			}
		})
	}
	clients.Wait()
	expectUnused(t, b)
}
