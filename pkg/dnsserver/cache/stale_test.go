// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// entry is a cache with the question www.example.com. A.
type entry struct {
	testing.TB
	*cache.Cache
	query *dns.Msg
	q     cache.Question
}

func newEntry(t testing.TB, cfg cache.Config) entry {
	query := ask(t, "www.example.com. A")
	return entry{t, newCache(t, cfg), query, questionOf(t, query)}
}

// put puts a reply at a second, and reports whether it is cached. Without an rcode it is an answer with the TTL and
// the address 192.0.2.N.
func (e entry) put(at float64, rcode, ttl, n int, o cache.PutOptions) bool {
	records := ""
	if ttl > 0 {
		records = fmt.Sprintf("www.example.com. %d A 192.0.2.%d", ttl, n)
	}
	return cached(e.Put(e.q, reply(e, e.query, rcode, records), after(at), o))
}

// at returns the state at a second, with the TTL and the address of an answer, or the rcode, and the cause.
func (e entry) at(second float64) string {
	hit := e.Get(e.q, after(second))
	text, m := hit.State.String(), message(hit, cache.ReplyOptions{})
	if hit.State == cache.Miss {
		return text
	}
	if m != nil && m.Rcode != dns.RcodeSuccess {
		text += " " + dns.RcodeToString[m.Rcode]
	}
	if m != nil && len(m.Answer) > 0 {
		text += fmt.Sprintf(" %d %s", m.Answer[0].Header().Ttl, m.Answer[0].(*dns.A).A)
	}
	if cause := hit.Cause(); cause != 0 {
		text += fmt.Sprint(" cause ", cause)
	}
	if !hit.FailedAt.IsZero() {
		text += fmt.Sprint(" failed at ", hit.FailedAt.Sub(start))
	}
	return text
}

// expect compares what at returns for each "SECOND TEXT" line.
func (e entry) expect(lines ...string) {
	e.Helper()
	for _, line := range lines {
		var second float64
		if _, err := fmt.Sscan(line, &second); err != nil {
			e.Fatal(err)
		}
		_, want, _ := strings.Cut(line, " ")
		if got := e.at(second); got != want {
			e.Errorf("at %v: got %s, want %s", second, got, want)
		}
	}
}

// One name with a TTL of 100 seconds over time, with upstream up or down.
func TestGet_Stale(t *testing.T) {
	e := newEntry(t, cache.Config{MaxStale: time.Minute})
	now, failed := cache.PutOptions{}, dns.RcodeServerFailure
	put := func(at float64, rcode, ttl int, want bool) {
		t.Helper()
		if got := e.put(at, rcode, ttl, 1, now); got != want {
			t.Errorf("at %v: Put = %t", at, got)
		}
	}
	put(0, 0, 100, true)
	e.expect("50 fresh 50 192.0.2.1")
	put(60, failed, 0, false)                                   // it does not replace the answer
	e.expect("61 fresh 39 192.0.2.1", "100 stale 30 192.0.2.1") // the failure is too long ago to count
	put(101, failed, 0, false)
	e.expect("102 failing 30 192.0.2.1 failed at 1m41s", "130.9 failing 30 192.0.2.1 failed at 1m41s", "131 stale 30 192.0.2.1")
	put(132, 0, 100, true)
	e.expect("133 fresh 99 192.0.2.1", "291 stale 30 192.0.2.1", "292 miss") // MaxStale is over
	put(300, failed, 0, true)                                                // there is nothing better
	e.expect("301 fresh SERVFAIL")
	put(302, 0, 100, true) // upstream is back: the failure is replaced
	e.expect("303 fresh 99 192.0.2.1")
}

// A stale answer never has a larger TTL than it had when it was fresh.
func TestGet_StaleTTL(t *testing.T) {
	for ttl, want := range map[int]int{1: 1, 5: 5, 29: 29, 30: 30, 31: 30, 3600: 30} {
		e := newEntry(t, cache.Config{})
		e.put(0, 0, ttl, 1, cache.PutOptions{})
		e.expect(fmt.Sprintf("%d stale %d 192.0.2.1", ttl, want))
	}
}

// The time until a retry is the caller's, and the hit has the time of the failure.
func TestGet_RetryInterval(t *testing.T) {
	e := newEntry(t, cache.Config{})
	e.put(0, 0, 10, 1, cache.PutOptions{})
	for _, rcode := range []int{dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers} {
		if e.put(20, rcode, 0, 1, cache.PutOptions{RetryInterval: 2 * time.Second}) {
			t.Errorf("rcode %d replaced the answer", rcode)
		}
	}
	e.expect("21.999 failing 10 192.0.2.1 failed at 20s", "22 stale 10 192.0.2.1")
}

// A failure is cached until the caller retries, but for FailureTTL at most and a second at least.
func TestPut_FailureTTL(t *testing.T) {
	for interval, want := range map[time.Duration]float64{
		0: 5, time.Hour: 5, 2 * time.Second: 2, time.Second: 1, time.Millisecond: 1,
	} {
		e := newEntry(t, cache.Config{})
		e.put(0, dns.RcodeServerFailure, 0, 1, cache.PutOptions{RetryInterval: interval})
		e.expect(fmt.Sprint(want-0.001, " fresh SERVFAIL"), fmt.Sprint(want, " miss"))
	}
}

// A failure has its rcode and no records. An rcode that needs an OPT record is SERVFAIL.
func TestPut_Failure(t *testing.T) {
	for rcode, want := range map[int]string{dns.RcodeServerFailure: "SERVFAIL", dns.RcodeRefused: "REFUSED", dns.RcodeBadVers: "SERVFAIL"} {
		e := newEntry(t, cache.Config{})
		e.put(0, rcode, 10, 1, cache.PutOptions{Cause: 7})
		e.expect("4 fresh " + want + " cause 7")
		e.put(5, 0, 10, 1, cache.PutOptions{Cause: 7})
		e.expect("5 fresh 10 192.0.2.1")
	}
}

// A reply to a query from before Clear is not cached: it may be from replaced servers.
func TestPut_OldGeneration(t *testing.T) {
	e := newEntry(t, cache.Config{})
	first, second := cache.PutOptions{Generation: e.Clear()}, cache.PutOptions{Generation: e.Clear()}
	if e.put(0, 0, 10, 1, first) || e.put(0, 0, 10, 1, cache.PutOptions{}) || e.Stats().Entries != 0 {
		t.Error("a reply of an old generation is cached")
	}
	if !e.put(0, 0, 10, 1, second) || e.put(11, dns.RcodeServerFailure, 0, 1, first) {
		t.Error("a reply of the current generation is not cached, or a failure of an old one is")
	}
	e.expect("11 stale 10 192.0.2.1") // a failure of an old generation does not count
}

// TestPut_SentAt: of the callers that wait for one reply, the first caches it and the others get its entry. An
// entry from before the query is replaced, and so is a failure.
func TestPut_SentAt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rcode  int       // of the entry, stored at second 10 with a TTL of 60
		sentAt time.Time // of the second reply
		now    float64   // when it comes
		want   int       // number of the address
	}{
		{"entry of another caller", 0, after(9), 11, 1},
		{"entry from before the query", 0, after(10.5), 11, 2},
		{"entry that has expired", 0, after(9), 71, 2},
		{"failure", dns.RcodeServerFailure, after(9), 11, 2},
		{"unknown time of the query", 0, time.Time{}, 11, 2},
	} {
		e := newEntry(t, cache.Config{})
		e.put(10, tt.rcode, 60, 1, cache.PutOptions{})
		second := reply(t, e.query, 0, "www.example.com. 60 A 192.0.2.2")
		hit, stored := e.Put(e.q, second, after(tt.now), cache.PutOptions{SentAt: tt.sentAt})
		got, later := message(hit, cache.ReplyOptions{}).Answer[0].(*dns.A).A.String(), e.at(tt.now)
		if want := fmt.Sprint("192.0.2.", tt.want); !stored || got != want || !strings.HasSuffix(later, " "+want) {
			t.Errorf("%s: got %s, cached %t, then %s, want %s", tt.name, got, stored, later, want)
		}
	}
}

// A popular entry near its end is Expiring for one caller.
func TestGet_Prefetch(t *testing.T) {
	e := newEntry(t, cache.Config{})
	expect := func(state string, seconds ...float64) {
		t.Helper()
		for _, at := range seconds {
			if got := e.at(at); !strings.HasPrefix(got, state) {
				t.Errorf("at %v: %s, want %s", at, got, state)
			}
		}
	}
	put := func(at float64) { e.put(at, 0, 100, 1, cache.PutOptions{}) }
	put(0)
	expect("fresh", 95, 96, 97) // not popular: it may expire
	put(0)
	expect("fresh", 1, 2, 89.9)
	expect("expiring", 90)
	expect("fresh", 90.1, 91, 94.9) // another caller prefetches
	expect("expiring", 95)          // it did not come to anything
	put(96)
	expect("expiring", 190) // still popular
	expect("stale", 196)
}
