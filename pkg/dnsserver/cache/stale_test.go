// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// One name with a TTL of 100 seconds over time, with upstream up or down. Each line is an
// event or a lookup, in seconds.
func TestGet_Stale(t *testing.T) {
	c := newCache(t, cache.Config{MaxStale: time.Minute})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	good := reply(t, query, 0, "www.example.com. 100 A 192.0.2.1")
	failed := reply(t, query, dns.RcodeServerFailure, "")
	get := func(at float64, want cache.State, ttl uint32) {
		t.Helper()
		hit := c.Get(q, after(at))
		if hit.State != want {
			t.Fatalf("at %v: %v, want %v", at, hit.State, want)
		}
		if m := message(hit, cache.ReplyOptions{}); ttl > 0 && m.Answer[0].Header().Ttl != ttl {
			t.Errorf("at %v: TTL %d, want %d", at, m.Answer[0].Header().Ttl, ttl)
		}
	}
	put := func(at float64, m *dns.Msg, want bool) {
		t.Helper()
		if got := cached(c.Put(q, m, after(at), cache.PutOptions{})); got != want {
			t.Fatalf("at %v: Put = %t", at, got)
		}
	}
	put(0, good, true)
	get(50, cache.Fresh, 50)
	put(60, failed, false) // it does not replace the answer
	get(61, cache.Fresh, 39)
	get(100, cache.Stale, 30) // the failure is too long ago to count
	put(101, failed, false)
	get(102, cache.Failing, 30) // no retry so soon
	get(130.9, cache.Failing, 30)
	get(131, cache.Stale, 30)
	put(132, good, true)
	get(133, cache.Fresh, 99)
	get(132+159, cache.Stale, 30)
	get(132+160, cache.Miss, 0) // MaxStale is over
	put(300, failed, true)      // there is nothing better
	get(301, cache.Fresh, 0)    // which has no records
	put(302, good, true)        // upstream is back: the failure is replaced
	get(303, cache.Fresh, 99)
}

// A stale answer never has a larger TTL than it had when it was fresh.
func TestGet_StaleTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, want uint32 }{{1, 1}, {5, 5}, {29, 29}, {30, 30}, {31, 30}, {3600, 30}} {
		c := newCache(t, cache.Config{})
		query := ask(t, "www.example.com. A")
		q := questionOf(t, query)
		c.Put(q, reply(t, query, 0, fmt.Sprintf("www.example.com. %d A 192.0.2.1", tt.ttl)), start, cache.PutOptions{})
		hit := c.Get(q, after(float64(tt.ttl)))
		if m := message(hit, cache.ReplyOptions{}); hit.State != cache.Stale || m.Answer[0].Header().Ttl != tt.want {
			t.Errorf("TTL %d: %v with %v, want %d", tt.ttl, hit.State, m, tt.want)
		}
	}
}

// The time until a retry is the caller's, and the hit has the time of the failure.
func TestGet_RetryInterval(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	c.Put(q, reply(t, query, 0, "www.example.com. 10 A 192.0.2.1"), start, cache.PutOptions{})
	for _, rcode := range []int{dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers} {
		if cached(c.Put(q, reply(t, query, rcode, ""), after(20), cache.PutOptions{RetryInterval: 2 * time.Second})) {
			t.Errorf("rcode %d replaced the answer", rcode)
		}
	}
	if hit := c.Get(q, after(21.999)); hit.State != cache.Failing || !hit.FailedAt.Equal(after(20)) {
		t.Errorf("before the interval ends: %v, failed at %v", hit.State, hit.FailedAt)
	}
	if hit := c.Get(q, after(22)); hit.State != cache.Stale || !hit.FailedAt.IsZero() {
		t.Errorf("at the end of the interval: %v, failed at %v", hit.State, hit.FailedAt)
	}
}

// A failure is cached until the caller retries, but for FailureTTL at most and a second at least.
func TestPut_FailureTTL(t *testing.T) {
	for interval, want := range map[time.Duration]float64{
		0: 5, time.Hour: 5, 2 * time.Second: 2, time.Second: 1, time.Millisecond: 1,
	} {
		c := newCache(t, cache.Config{})
		query := ask(t, "www.example.com. A")
		q := questionOf(t, query)
		if !cached(c.Put(q, reply(t, query, dns.RcodeServerFailure, ""), start, cache.PutOptions{RetryInterval: interval})) {
			t.Errorf("retry interval %v: not cached", interval)
		}
		before, at := c.Get(q, after(want-0.001)).State, c.Get(q, after(want)).State
		if before != cache.Fresh || at != cache.Miss {
			t.Errorf("retry interval %v: %v just before %v s, then %v", interval, before, want, at)
		}
	}
}

// A failure has its rcode and no records. An rcode that needs an OPT record is SERVFAIL.
func TestPut_Failure(t *testing.T) {
	for rcode, want := range map[int]int{dns.RcodeServerFailure: dns.RcodeServerFailure,
		dns.RcodeRefused: dns.RcodeRefused, dns.RcodeBadVers: dns.RcodeServerFailure} {
		c := newCache(t, cache.Config{})
		query := ask(t, "www.example.com. A")
		q := questionOf(t, query)
		c.Put(q, reply(t, query, rcode, "www.example.com. 10 A 192.0.2.1"), start, cache.PutOptions{Cause: 7})
		hit := c.Get(q, after(4))
		if m := message(hit, cache.ReplyOptions{}); m == nil || m.Rcode != want || len(m.Answer) != 0 || hit.Cause() != 7 {
			t.Errorf("rcode %d: got %v and the cause %d, want rcode %d without records", rcode, m, hit.Cause(), want)
		}
		c.Put(q, reply(t, query, 0, "www.example.com. 10 A 192.0.2.1"), after(5), cache.PutOptions{Cause: 7})
		if hit := c.Get(q, after(5)); hit.State != cache.Fresh || hit.Cause() != 0 {
			t.Errorf("an answer: %v with the cause %d", hit.State, hit.Cause())
		}
	}
}

// A reply to a query from before Clear is not cached: it may be from replaced servers.
func TestPut_OldGeneration(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	good := reply(t, query, 0, "www.example.com. 10 A 192.0.2.1")
	first := c.Clear()
	second := c.Clear()
	if cached(c.Put(q, good, start, cache.PutOptions{Generation: first})) || cached(c.Put(q, good, start, cache.PutOptions{})) ||
		c.Stats().Entries != 0 {
		t.Error("a reply of an old generation is cached")
	}
	if !cached(c.Put(q, good, start, cache.PutOptions{Generation: second})) {
		t.Error("a reply of the current generation is not cached")
	}
	if cached(c.Put(q, reply(t, query, dns.RcodeServerFailure, ""), after(11), cache.PutOptions{Generation: first})) ||
		c.Get(q, after(11)).State != cache.Stale {
		t.Error("a failure of an old generation counts")
	}
}

// TestPut_SentAt: of the callers that wait for one reply, the first caches it and the others get its entry. An
// entry from before the query is replaced, and so is a failure.
func TestPut_SentAt(t *testing.T) {
	tests := []struct {
		name   string
		cached string    // the record of the entry, stored at second 10; "": SERVFAIL
		sentAt time.Time // of the second reply, which comes at second 11
		now    time.Time
		want   string // address
	}{
		{"entry of another caller", "a.example. 60 IN A 192.0.2.1", after(9), after(11), "192.0.2.1"},
		{"entry from before the query", "a.example. 60 IN A 192.0.2.1", after(10.5), after(11), "192.0.2.2"},
		{"entry that has expired", "a.example. 60 IN A 192.0.2.1", after(9), after(71), "192.0.2.2"},
		{"failure", "", after(9), after(11), "192.0.2.2"},
		{"unknown time of the query", "a.example. 60 IN A 192.0.2.1", time.Time{}, after(11), "192.0.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCache(t, cache.Config{})
			query := ask(t, "a.example. A")
			q := questionOf(t, query)
			first := reply(t, query, dns.RcodeServerFailure, "")
			if tt.cached != "" {
				first = reply(t, query, dns.RcodeSuccess, tt.cached)
			}
			c.Put(q, first, after(10), cache.PutOptions{})
			second := reply(t, query, dns.RcodeSuccess, "a.example. 60 IN A 192.0.2.2")
			hit, stored := c.Put(q, second, tt.now, cache.PutOptions{SentAt: tt.sentAt})
			got := message(hit, cache.ReplyOptions{}).Answer[0].(*dns.A).A.String()
			later := message(c.Get(q, tt.now), cache.ReplyOptions{}).Answer[0].(*dns.A).A.String()
			if !stored || got != tt.want || later != tt.want {
				t.Errorf("got %s, cached %t, then %s, want %s", got, stored, later, tt.want)
			}
		})
	}
}

// A popular entry near its end is Expiring for one caller.
func TestGet_Prefetch(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	good := reply(t, query, 0, "www.example.com. 100 A 192.0.2.1")
	states := func(at ...float64) (states []cache.State) {
		for _, at := range at {
			states = append(states, c.Get(q, after(at)).State)
		}
		return states
	}
	expect := func(want cache.State, got ...cache.State) {
		t.Helper()
		for i, s := range got {
			if s != want {
				t.Errorf("caller %d: %v, want %v", i, s, want)
			}
		}
	}
	c.Put(q, good, start, cache.PutOptions{})
	expect(cache.Fresh, states(95, 96, 97)...) // not popular: it may expire
	c.Put(q, good, start, cache.PutOptions{})
	expect(cache.Fresh, states(1, 2, 89.9)...)
	expect(cache.Expiring, states(90)...)
	expect(cache.Fresh, states(90.1, 91, 94.9)...) // another caller prefetches
	expect(cache.Expiring, states(95)...)          // it did not come to anything
	c.Put(q, good, after(96), cache.PutOptions{})
	expect(cache.Expiring, states(190)...) // still popular
	expect(cache.Stale, states(196)...)
}

// The strings are labels of metrics.
func TestState_String(t *testing.T) {
	want := []string{"miss", "fresh", "expiring", "stale", "failing"}
	for i, name := range want {
		if got := cache.State(i).String(); got != name {
			t.Errorf("state %d is called %q, want %q", i, got, name)
		}
	}
}
