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
