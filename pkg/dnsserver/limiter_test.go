// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// clientAddr returns the address of the i-th client.
func clientAddr(i int) netip.Addr {
	var b [16]byte
	copy(b[:], []byte{0xfd, 0, 0, 0x10})
	binary.BigEndian.PutUint32(b[12:], uint32(i))
	return netip.AddrFrom16(b)
}

// begin is when the tests of limiters begin.
var begin = time.Unix(1_800_000_000, 0)

// admitAll takes slots for a client until there is none, and at most limit.
func (l *limiter) admitAll(client netip.Addr, kind queryKind, now time.Time, limit int) (slots []*slot) {
	for len(slots) < limit {
		s := l.admit(client, kind, now)
		if s == nil {
			break
		}
		slots = append(slots, s)
	}
	return slots
}

// expectUnused fails the test unless no slot of the limiter is in use, and it has forgotten every
// client.
func expectUnused(t *testing.T, l *limiter) {
	t.Helper()
	if l.inUse() != 0 || l.pinned != 0 || len(l.holders) != 0 || len(l.ranking) != 0 {
		t.Errorf("%d slots are in use, %d pinned, by %d clients, %d of them in the ranking",
			l.inUse(), l.pinned, len(l.holders), len(l.ranking))
	}
}

func releaseAll(slots ...*slot) {
	for _, s := range slots {
		s.release()
		s.release() // without effect
	}
}

// TestLimiter_WhenReplaced: a slot may be replaced before and after its owner sets the function.
func TestLimiter_WhenReplaced(t *testing.T) {
	for _, before := range []bool{true, false} {
		l := newLimiter(1)
		s := l.admit(clientAddr(0), kindPlain, begin)
		calls := 0
		if before {
			l.admit(clientAddr(1), kindPlain, begin.Add(time.Second))
		}
		s.whenReplaced(func() { calls++ })
		if !before {
			l.admit(clientAddr(1), kindPlain, begin.Add(time.Second))
		}
		if calls != 1 || !s.isReplaced() {
			t.Errorf("replaced before: %t: %d calls", before, calls)
		}
	}
}

// TestLimiter_Client: an IPv4-mapped address is the IPv4 address, a link-local address is the same client
// in all zones, and the addresses of an IPv6 prefix are clients of their own.
func TestLimiter_Client(t *testing.T) {
	l := newLimiter(100)
	for _, address := range []string{"10.244.1.7", "::ffff:10.244.1.7", "fe80::1%eth0", "fe80::1%eth1", "fe80::2%eth0"} {
		l.admit(netip.MustParseAddr(address), kindPlain, begin)
	}
	if n := len(l.holders); n != 3 {
		t.Errorf("%d clients, want 3", n)
	}
}

// TestLimiter_Random compares random admissions with the two rules, written down for a list of slots: who gets a
// slot, and whose slot gives way.
func TestLimiter_Random(t *testing.T) {
	const limit, clients = 256, 24 // few is 2
	random := rand.New(rand.NewPCG(1, 2))
	l := newQueryLimiter(Limits{MaxQueries: limit})
	if l.few != 2 {
		t.Errorf("%d slots are few, want an eighth of a sixteenth", l.few)
	}
	var held []*slot // the oldest first
	now := begin
	count := func(matches func(*slot) bool) (n int) {
		for _, s := range held {
			if matches(s) {
				n++
			}
		}
		return n
	}
	heldBy := func(key holderKey) int { return count(func(s *slot) bool { return s.holder.holderKey == key }) }
	usedBy := func(kind queryKind) int { return count(func(s *slot) bool { return s.holder.kind == kind }) }
	// loses returns the slot that gives way to a query of a client.
	loses := func(key holderKey) (lost *slot) {
		most := max(heldBy(key), l.few)
		for _, s := range held {
			n := heldBy(s.holder.holderKey)
			reserved := s.holder.kind != key.kind && usedBy(s.holder.kind) <= l.kindReserve
			oldest := slices.IndexFunc(held, func(o *slot) bool { return o.element != nil && o.holder.holderKey == s.holder.holderKey })
			n = max(n, l.few)
			if s.element == nil || held[oldest] != s || reserved || now.Sub(s.since) < replaceAfter || n < most {
				continue
			}
			if n > most || lost == nil {
				lost, most = s, n
			}
		}
		return lost
	}
	refused, replaced := 0, 0
	for range 10_000 {
		now = now.Add(time.Duration(1+random.IntN(20)) * time.Millisecond)
		if len(held) > 0 && random.IntN(5) < 2 {
			i := random.IntN(len(held))
			held[i].release()
			held = slices.Delete(held, i, i+1)
			continue
		}
		key := holderKey{clientAddr(random.IntN(1 + random.IntN(clients))), queryKind(random.IntN(int(numKinds)))}
		free := limit
		for kind := range numKinds {
			if used := usedBy(kind); kind == key.kind {
				free -= used
			} else {
				free -= max(used, l.kindReserve)
			}
		}
		if heldBy(key) >= l.few {
			free -= l.reserve
		}
		mayTake := free > 0 || usedBy(key.kind) < l.kindReserve
		lost := loses(key)
		s := l.admit(key.client, key.kind, now)
		switch {
		case (s != nil) != (mayTake || lost != nil):
			t.Fatalf("%v: got %v, free %t, %v gives way", key, s, mayTake, lost)
		case s == nil:
			refused++
			continue
		case !mayTake:
			replaced++
			if i := slices.IndexFunc(held, (*slot).isReplaced); i < 0 || held[i] != lost {
				t.Fatalf("%v: want %v to be replaced", key, lost.holder.holderKey)
			} else {
				held = slices.Delete(held, i, i+1)
			}
		}
		held = append(held, s)
		if n := l.inUse(); n != len(held) || n > limit {
			t.Fatalf("%d slots are in use, want %d", n, len(held))
		}
	}
	if refused < 100 || replaced < 500 {
		t.Errorf("%d refused, %d replaced: the test does not reach the limits", refused, replaced)
	}
	releaseAll(held...)
	expectUnused(t, l)
}

// TestLimiter_Concurrent: slots are neither lost nor given twice, whatever runs at once.
func TestLimiter_Concurrent(t *testing.T) {
	l := newQueryLimiter(Limits{MaxQueries: 100})
	var clients sync.WaitGroup
	for client := range 20 {
		clients.Go(func() {
			now := begin
			for range 500 {
				now = now.Add(50 * time.Millisecond)
				s := l.admit(clientAddr(client), queryKind(client%int(numKinds)), now)
				if s == nil {
					continue
				}
				s.whenReplaced(func() {})
				s.renew(now)
				if n := l.inUse(); n > 100 {
					t.Errorf("%d slots are in use", n)
				}
				s.release()
			}
		})
	}
	clients.Wait()
	expectUnused(t, l)
}
