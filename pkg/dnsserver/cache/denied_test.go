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

// TestPut_LastKnownGood has one row per case: the replies to a question and the lookups after them. In a
// step "60 X" the reply X comes at second 60, and "61 get" looks the question up.
func TestPut_LastKnownGood(t *testing.T) {
	const nodata = "--" + soa
	replies := map[string]func(query *dns.Msg) *dns.Msg{
		"good":     func(q *dns.Msg) *dns.Msg { return reply(t, q, 0, "www.example.com. 50 A 192.0.2.1") },
		"newer":    func(q *dns.Msg) *dns.Msg { return reply(t, q, 0, "www.example.com. 50 A 192.0.2.2") },
		"nxdomain": func(q *dns.Msg) *dns.Msg { return reply(t, q, dns.RcodeNameError, nodata) },
		"nosoa":    func(q *dns.Msg) *dns.Msg { return reply(t, q, dns.RcodeNameError, "") },
		"broken": func(q *dns.Msg) *dns.Msg {
			return reply(t, q, dns.RcodeNameError, "www.example.com. 50 A 192.0.2.9")
		},
		"dangling": func(q *dns.Msg) *dns.Msg {
			return reply(t, q, dns.RcodeNameError, "www.example.com. 50 CNAME gone.example.com.\n"+nodata)
		},
		"nodata":   func(q *dns.Msg) *dns.Msg { return reply(t, q, 0, nodata) },
		"lame":     func(q *dns.Msg) *dns.Msg { return reply(t, q, 0, "--com. 50 NS a.gtld-servers.net.") },
		"servfail": func(q *dns.Msg) *dns.Msg { return reply(t, q, dns.RcodeServerFailure, "") },
		"loop":     func(q *dns.Msg) *dns.Msg { return reply(t, q, 0, "www.example.com. 50 CNAME www.example.com.") },
		"cut": func(q *dns.Msg) *dns.Msg {
			m := reply(t, q, 0, "")
			m.Truncated = true
			return m
		},
	}
	const good = "192.0.2.1/30 denied"
	tests := []struct {
		name  string
		off   bool // without LastKnownGood, which is 100 s
		steps []string
	}{
		{name: "off", off: true, steps: []string{"0 good: 192.0.2.1/50", "60 nxdomain: NXDOMAIN", "61 get: fresh NXDOMAIN"}},
		{name: "NXDOMAIN of an expired answer", steps: []string{"0 good: 192.0.2.1/50", "60 nxdomain: " + good,
			"60 get: failing " + good, "89.9 get: failing " + good, "90 get: stale " + good, "91 nxdomain: " + good,
			"92 get: failing " + good, "159.9 nxdomain: " + good, "160 get: miss", "160 nxdomain: NXDOMAIN", "161 get: fresh NXDOMAIN"}},
		{name: "NXDOMAIN of a fresh answer, by a prefetch", steps: []string{"0 good: 192.0.2.1/50", "46 nxdomain: " + good,
			"47 get: failing " + good, "146 get: miss", "146 nxdomain: NXDOMAIN"}},
		{name: "all denials and failures in turn", steps: []string{"0 good: 192.0.2.1/50", "60 nodata: " + good,
			"91 nxdomain: " + good, "122 servfail: SERVFAIL", "123 get: failing " + good, "153 lame: " + good, "154 nosoa: " + good,
			"155 dangling: " + good, "156 broken: " + good, "160 servfail: SERVFAIL", "161 get: fresh SERVFAIL"}},
		{name: "a failure does not begin the time", steps: []string{"0 good: 192.0.2.1/50", "60 servfail: SERVFAIL",
			"61 get: failing 192.0.2.1/30", "1000 nodata: " + good, "1099 get: stale " + good, "1100 get: miss"}},
		{name: "good again", steps: []string{"0 good: 192.0.2.1/50", "60 nxdomain: " + good, "91 newer: 192.0.2.2/50",
			"92 get: fresh 192.0.2.2/49", "150 nxdomain: 192.0.2.2/30 denied", "249 nxdomain: 192.0.2.2/30 denied",
			"250 nxdomain: NXDOMAIN"}},
		{name: "never good", steps: []string{"0 nxdomain: NXDOMAIN", "61 nxdomain: NXDOMAIN", "70 nodata: NOERROR",
			"71 get: fresh NOERROR"}},
		{name: "NODATA, then NXDOMAIN", steps: []string{"0 nodata: NOERROR", "61 nxdomain: NOERROR denied",
			"62 get: failing NOERROR denied", "63 nodata: NOERROR", "64 get: fresh NOERROR"}},
		{name: "after a failure", steps: []string{"0 servfail: SERVFAIL", "1 nxdomain: NXDOMAIN", "2 get: fresh NXDOMAIN"}},
		{name: "an answer that is too old", steps: []string{"0 good: 192.0.2.1/50", "3650 nxdomain: NXDOMAIN"}},
		{name: "a loop of aliases is a failure", steps: []string{"0 good: 192.0.2.1/50", "60 loop: SERVFAIL",
			"61 get: failing 192.0.2.1/30"}},
		{name: "a truncated reply denies nothing", steps: []string{"0 good: 192.0.2.1/50", "60 cut: NOERROR",
			"61 get: stale 192.0.2.1/30"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCache(t, cache.Config{})
			query := ask(t, "www.example.com. A")
			q := questionOf(t, query)
			options := cache.PutOptions{LastKnownGood: 100 * time.Second}
			if tt.off {
				options.LastKnownGood = 0
			}
			for _, step := range tt.steps {
				var at float64
				var event string
				if _, err := fmt.Sscan(step, &at, &event); err != nil {
					t.Fatal(err)
				}
				got := fmt.Sprintf("%v %s ", at, event)
				var hit cache.Hit
				if event == "get:" {
					hit = c.Get(q, after(at))
					got += hit.State.String() + " "
				} else {
					hit, _ = c.Put(q, replies[event[:len(event)-1]](query), after(at), options)
				}
				if got += hitText(hit); got != step && got != step+" " {
					t.Fatalf("got %q, want %q", got, step)
				}
			}
		})
	}
}

// hitText returns the address and its TTL, or the rcode.
func hitText(hit cache.Hit) string {
	m := message(hit, cache.ReplyOptions{})
	if m == nil {
		return ""
	}
	text := dns.RcodeToString[m.Rcode]
	if len(m.Answer) > 0 {
		text = fmt.Sprintf("%v/%d", m.Answer[0].(*dns.A).A, m.Answer[0].Header().Ttl)
	}
	if hit.Denied() {
		text += " denied"
	}
	return text
}

// TestPut_LastKnownGoodDiscarded: a denial that must not be cached, or of servers that were replaced, does
// not change the answer.
func TestPut_LastKnownGoodDiscarded(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q, current := questionOf(t, query), c.Clear()
	c.Put(q, reply(t, query, 0, "www.example.com. 50 A 192.0.2.1"), start, cache.PutOptions{Generation: current})
	for _, options := range []cache.PutOptions{{Discard: true, Generation: current}, {Generation: current - 1}} {
		options.LastKnownGood = time.Minute
		hit, _ := c.Put(q, reply(t, query, dns.RcodeNameError, ""), after(1), options)
		if got, later := hitText(hit), hitText(c.Get(q, after(1))); got != "NXDOMAIN" || later != "192.0.2.1/49" {
			t.Errorf("%+v: got %s, and later %s", options, got, later)
		}
	}
}

// TestPut_LastKnownGoodQuestion: the answer is kept for a question with all its bits and its search list,
// and its addresses rotate.
func TestPut_LastKnownGoodQuestion(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	good := reply(t, query, 0, "www.example.com. 50 A 192.0.2.1\nwww.example.com. 50 A 192.0.2.2")
	denial := reply(t, query, dns.RcodeNameError, "")
	other := questionOf(t, query)
	q := other
	q.DO, q.CD, q.Paths = true, true, []byte("corp.example")
	for _, question := range []cache.Question{q, other} {
		c.Put(question, good, start, cache.PutOptions{})
	}
	hit, _ := c.Put(q, denial, after(60), cache.PutOptions{LastKnownGood: time.Minute})
	if hit.State != cache.Failing || !hit.FailedAt().Equal(after(60)) {
		t.Errorf("got %v, failed at %v", hit.State, hit.FailedAt())
	}
	first := map[string]bool{}
	for range 100 {
		hit := c.Get(q, after(61))
		first[hitText(hit)] = true
	}
	if !first["192.0.2.1/30 denied"] || !first["192.0.2.2/30 denied"] {
		t.Errorf("got %v", first)
	}
	if hit := c.Get(other, after(61)); hit.State != cache.Stale || hit.Denied() {
		t.Errorf("another question: %v, denied %t", hit.State, hit.Denied())
	}
}

// TestPut_LastKnownGoodBounded: names that are answered and denied in turn take the memory of other names,
// and evict no popular ones.
func TestPut_LastKnownGoodBounded(t *testing.T) {
	const limit = 100
	c := newCache(t, cache.Config{MaxEntries: limit})
	options := cache.PutOptions{LastKnownGood: time.Hour}
	fill(t, c, "popular", limit/2, 1)
	for i := range 20 * limit {
		for p := range limit / 2 {
			if i%20 == 0 && c.Get(questionOf(t, ask(t, fmt.Sprintf("popular%d.example.com. TXT", p))), start).State == cache.Miss {
				t.Fatalf("after %d names popular%d is evicted", i, p)
			}
		}
		query := ask(t, fmt.Sprintf("n%d.hostile.example. A", i%(2*limit)))
		q := questionOf(t, query)
		c.Put(q, reply(t, query, 0, query.Question[0].Name+" 300 A 192.0.2.1"), start, options)
		before := c.Stats()
		for range 3 {
			hit, _ := c.Put(q, reply(t, query, dns.RcodeNameError, ""), start, options)
			if got := c.Stats(); got != before || !hit.Denied() || got.Entries > limit {
				t.Fatalf("%+v after a denial, %+v before; denied: %t", got, before, hit.Denied())
			}
		}
	}
}
