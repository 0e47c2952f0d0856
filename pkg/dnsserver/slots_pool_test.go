// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// fillPool takes slots for clients from clientAddr(0) on until all are taken, each client as many
// as it gets without replacing others.
func fillPool(t *testing.T, p *slotPool, now time.Time) (slots []*slot) {
	t.Helper()
	for client := 0; p.inUse() < int(p.limit); client++ {
		for {
			s, reason := p.admit(clientAddr(client), now)
			if reason != notRefused {
				break
			}
			slots = append(slots, s)
		}
	}
	return slots
}

// TestSlotPool_Replace: a query gets the slot of the oldest one that is not pinned once that has
// waited for replaceAfter, and while its client holds less than its share.
func TestSlotPool_Replace(t *testing.T) {
	const limit = 160
	p, start := newSlotPool(limit), time.Now()
	slots := fillPool(t, p, start)
	late := clientAddr(1000)
	if _, reason := p.admit(late, start.Add(replaceAfter-1)); reason != refusedBudget {
		t.Errorf("just before replaceAfter: %v, want budget", reason)
	}
	var replacing []*slot
	for range limit / replacerDivisor {
		s, reason := p.admit(late, start.Add(replaceAfter))
		if reason != notRefused {
			t.Fatalf("query %d of the client: %v, want a slot", len(replacing), reason)
		}
		replacing = append(replacing, s)
	}
	if _, reason := p.admit(late, start.Add(replaceAfter)); reason != refusedBudget {
		t.Errorf("a client with its share: %v, want budget", reason)
	}
	for i, s := range slots {
		want := i >= limit/pinnedDivisor && i < limit/pinnedDivisor+len(replacing) // the oldest after the pinned ones
		if s.isReplaced() != want {
			t.Errorf("slot %d: replaced is %t, want %t", i, s.isReplaced(), want)
		}
	}
	if n := p.inUse(); n != limit {
		t.Errorf("%d slots are in use, want %d", n, limit)
	}
	for _, s := range append(slots, replacing...) {
		s.release()
	}
	expectUnused(t, p.budget)
	if p.pinned != 0 || p.oldest != nil || p.newest != nil {
		t.Errorf("%d pinned slots, and the list is %v to %v", p.pinned, p.oldest, p.newest)
	}
}

// TestSlotPool_GreedyClient: a client that is refused because of its own share replaces nothing.
func TestSlotPool_GreedyClient(t *testing.T) {
	p, start := newSlotPool(1000), time.Now()
	for {
		if _, reason := p.admit(clientAddr(1), start); reason != notRefused {
			break
		}
	}
	if _, reason := p.admit(clientAddr(1), start.Add(time.Hour)); reason != refusedClient {
		t.Errorf("got %v, want client", reason)
	}
}

// TestSlotPool_Pinned: pinned slots are not replaced, also when no others are left, and a released one
// becomes free for another pinned query.
func TestSlotPool_Pinned(t *testing.T) {
	p, start := newSlotPool(100), time.Now()
	slots := fillPool(t, p, start)
	for _, s := range slots[100/pinnedDivisor:] {
		s.release()
	}
	slots[0].release()
	s, reason := p.admit(clientAddr(1000), start)
	if reason != notRefused || !s.pinned || p.pinned != 100/pinnedDivisor {
		t.Errorf("got %v with %d pinned slots, want a pinned one of %d", reason, p.pinned, 100/pinnedDivisor)
	}
	if g := p.replaceLocked(clientAddr(1001), start.Add(time.Hour)); g.budget != nil {
		t.Error("a pinned slot is replaced")
	}
}

// TestSlotPool_Use: a slot may be replaced before and after its query begins to wait.
func TestSlotPool_Use(t *testing.T) {
	for _, before := range []bool{true, false} {
		p, start := newSlotPool(16), time.Now()
		slots := fillPool(t, p, start)
		s := slots[16/pinnedDivisor]
		replace := func() {
			if _, reason := p.admit(clientAddr(1000), start.Add(replaceAfter)); reason != notRefused {
				t.Fatal(reason)
			}
		}
		if before {
			replace()
		}
		ctx, cancel := s.use(t.Context())
		defer cancel()
		if !before {
			if ctx.Err() != nil {
				t.Error("the context of a slot has ended")
			}
			replace()
		}
		if ctx.Err() == nil || !s.isReplaced() {
			t.Errorf("replaced before: %t: the context has not ended", before)
		}
	}
}

// TestLimits_ManyClients: 300 clients that query names of silent servers all the time do not make
// names of others fail. The replaced queries are refused and not cached, their upstream queries end.
func TestLimits_ManyClients(t *testing.T) {
	for _, tt := range []struct {
		qtype   uint16
		domain  string
		hostile int // queries in 10 ms
	}{
		{dns.TypeA, "example.", 10},
		{dns.TypePTR, "8.8.in-addr.arpa.", 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t, "loaded", Config{Upstream: silentFor(t, "silent")})
			var hostile, good pending
			const clients, seconds = 300, 6
			for tick := range 100 * seconds {
				for range tt.hostile {
					i := len(hostile)
					hostile.send(t, s.Server, clientAddr(i%clients), 1, fmt.Sprintf("silent%d-", i), tt.domain, tt.qtype)
				}
				time.Sleep(10 * time.Millisecond)
				if tick%5 == 0 { // a burst above the share of the budget that the hostile clients leave
					good.send(t, s.Server, clientAddr(1000), 20, fmt.Sprintf("good%d-", tick), tt.domain, tt.qtype)
				}
				if used := s.slotPools[budgetOther].inUse() + s.slotPools[budgetReverse].inUse(); used > DefaultMaxConcurrent {
					t.Fatalf("%d slots are in use", used)
				}
			}
			entries := s.cache.Stats().Entries
			expectRcodes(t, "names of other servers", good, "NOERROR")
			expectRcodes(t, "names of silent servers", hostile, "SERVFAIL")
			s.running.Wait()
			s.expectFree(t)
			replaced := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=replaced")
			if replaced == 0 || entries > len(good)+len(hostile)-replaced {
				t.Errorf("%d replaced queries, and %d replies cached of %d and %d", replaced, entries, len(good), len(hostile))
			}
		})
	}
}

// TestLimits_SlowServers: servers that take longer than replaceAfter complete queries under any
// load, in the pinned slots.
func TestLimits_SlowServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			select {
			case <-time.After(3 * replaceAfter):
				return newReply(t, q, validAddr), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		s := newTestServer(t, "loaded", Config{Upstream: slow, Limits: Limits{MaxConcurrent: 100}})
		var all pending
		for i := range 5000 {
			all.send(t, s.Server, clientAddr(i%500), 1, fmt.Sprintf("name%d-", i), "example.", dns.TypeA)
			time.Sleep(time.Millisecond)
		}
		// In 5 s, and each pinned slot completes a query in 600 ms.
		want := 8 * int(s.slotPools[budgetOther].limit) / pinnedDivisor
		if got := all.rcodes()["NOERROR"]; got < want {
			t.Errorf("%d queries got a reply, want %d", got, want)
		}
		s.running.Wait()
		s.expectFree(t)
	})
}

// TestLimits_SlowNames: 200 clients that query names of a silent server all the time do not make
// names of others fail that take longer than replaceAfter: those of clients that got a reply
// before, and of new ones.
func TestLimits_SlowNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := silentFor(t, "silent")
		s := newTestServer(t, "loaded", Config{
			Limits: Limits{MaxConcurrent: 1260}, // 819 for plain names, as on a node cache
			Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
				if strings.HasPrefix(q.Question[0].Name, "slow") {
					time.Sleep(3 * replaceAfter)
				}
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return silent(ctx, q)
			},
		})
		var hostile, good pending
		for client := range 3 {
			good.send(t, s.Server, clientAddr(1000+client), 1, fmt.Sprintf("before%d-", client), "example.", dns.TypeA)
		}
		const clients, seconds, newAfter = 200, 6, 2
		for tick := range 100 * seconds {
			for range 20 {
				i := len(hostile)
				hostile.send(t, s.Server, clientAddr(i%clients), 1, fmt.Sprintf("silent%d-", i), "example.", dns.TypeA)
			}
			time.Sleep(10 * time.Millisecond)
			known := 3
			if tick >= 100*newAfter {
				known = 6
			}
			for client := range known {
				if tick%20 == 3*client { // 2 queries at once, 10 a second
					good.send(t, s.Server, clientAddr(1000+client), 2, fmt.Sprintf("slow%d-%d-", client, tick), "example.", dns.TypeA)
				}
			}
		}
		expectRcodes(t, "slow names", good, "NOERROR")
		expectRcodes(t, "names of silent servers", hostile, "SERVFAIL")
		s.running.Wait()
		s.expectFree(t)
		if s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=replaced") == 0 {
			t.Error("no query was replaced")
		}
	})
}

// TestSlotPool_Credit: the slot of the client with the least credit is replaced, although another
// query has waited for longer. The credits are bounded, and so is their number.
func TestSlotPool_Credit(t *testing.T) {
	const limit = 160
	p, start := newSlotPool(limit), time.Now()
	good := fillPool(t, p, start)[limit/pinnedDivisor].grant.client
	for range 2 * maxCredit {
		(&slot{pool: p, grant: grant{client: good}}).recordReply()
	}
	var lost []*slot
	for client := range limit / 2 {
		victim := p.replaceableLocked(start.Add(replaceAfter))
		if victim.grant.client == good {
			t.Fatalf("the client with credit %d loses a slot", p.credits[good])
		}
		if _, reason := p.admit(clientAddr(1000+client), start.Add(replaceAfter)); reason != notRefused || !victim.isReplaced() {
			t.Fatalf("got %v, and replaced is %t", reason, victim.isReplaced())
		}
		lost = append(lost, victim)
	}
	if p.credits[good] != maxCredit {
		t.Errorf("the credit is %d, want %d", p.credits[good], maxCredit)
	}
	first := lost[0].grant.client
	if got := p.credits[first]; got != minCredit {
		t.Errorf("the credit after many losses is %d, want %d", got, minCredit)
	}
	if lost[0].recordReply(); p.credits[first] != minCredit+1 {
		t.Errorf("the credit after a reply is %d, want %d", p.credits[first], minCredit+1)
	}
	for client := range 10 * limit {
		(&slot{pool: p, grant: grant{client: clientAddr(2000 + client)}}).recordReply()
	}
	if len(p.credits) > limit {
		t.Errorf("%d clients have credits, want at most %d", len(p.credits), limit)
	}
}

// TestSlotPool_Credits: a new client deletes the credits of all others if there are too many. A client
// that has a credit deletes none.
func TestSlotPool_Credits(t *testing.T) {
	p := newSlotPool(100)
	reply := func(client netip.Addr) {
		t.Helper()
		s, reason := p.admit(client, time.Now())
		if reason != notRefused {
			t.Fatalf("%s was refused: %v", client, reason)
		}
		s.recordReply()
		s.release()
	}
	for i := range 100 {
		reply(clientAddr(i))
	}
	reply(clientAddr(0))
	if n, credit := len(p.credits), p.credits[clientAddr(0)]; n != 100 || credit != 2 {
		t.Errorf("%d credits, the client has %d, want 100 and 2", n, credit)
	}
	reply(clientAddr(100))
	if n := len(p.credits); n != 1 {
		t.Errorf("%d credits after one too many, want 1", n)
	}
}
