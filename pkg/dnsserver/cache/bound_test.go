// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// fill puts n names into c, with a TXT record of some bytes each.
func fill(t testing.TB, c *cache.Cache, prefix string, n, size int) {
	t.Helper()
	for i := range n {
		query := ask(t, fmt.Sprintf("%s%d.example.com. TXT", prefix, i))
		m := reply(t, query, 0, query.Question[0].Name+" 300 TXT "+strings.Repeat("x", size))
		if !cached(c.Put(questionOf(t, query), m, start, cache.PutOptions{})) {
			t.Fatalf("%s%d is not cached", prefix, i)
		}
	}
}

func TestPut_MaxEntries(t *testing.T) {
	for _, limit := range []int{1, 2, 100} {
		c := newCache(t, cache.Config{MaxEntries: limit})
		fill(t, c, "a", limit, 1)
		if got := c.Stats(); got.Entries != limit || got.Evictions != 0 {
			t.Errorf("limit %d: full, and %+v", limit, got)
		}
		fill(t, c, "a", limit, 1) // the same again takes no room
		fill(t, c, "b", 1, 1)
		if got := c.Stats(); got.Entries != limit || got.Evictions != 1 {
			t.Errorf("limit %d: one too many, and %+v", limit, got)
		}
	}
}

// MaxBytes bounds the memory that the entries really take.
func TestPut_MaxBytes(t *testing.T) {
	const limit = 4 << 20
	c := newCache(t, cache.Config{MaxBytes: limit, MaxEntries: 100_000})
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for i, size := range []int{1, 200, 80} {
		fill(t, c, fmt.Sprintf("fill%d-", i), 20_000, size)
		got := c.Stats()
		if got.Bytes > limit || got.Bytes < limit*9/10 {
			t.Errorf("records of %d bytes: %d bytes are cached, the limit is %d", size, got.Bytes, limit)
		}
		if used := heap() - before; used > limit+limit/8 {
			t.Errorf("records of %d bytes: the heap has grown by %d, the limit is %d", size, used, limit)
		}
	}
	runtime.KeepAlive(c)
}

// A reply larger than the cache is not cached and evicts nothing.
func TestPut_LargerThanCache(t *testing.T) {
	c := newCache(t, cache.Config{MaxBytes: 1000})
	fill(t, c, "small", 1, 1)
	query := ask(t, "large.example.com. TXT")
	m := reply(t, query, 0, strings.Repeat("large.example.com. 300 TXT "+strings.Repeat("x", 200)+"\n", 5))
	if cached(c.Put(questionOf(t, query), m, start, cache.PutOptions{})) || c.Stats().Entries != 1 {
		t.Errorf("a reply of %d bytes: %+v", m.Len(), c.Stats())
	}
}

// Popular entries survive a burst of names that are queried once.
func TestPut_PopularEntriesStay(t *testing.T) {
	c := newCache(t, cache.Config{MaxEntries: 100})
	fill(t, c, "popular", 50, 1)
	stayed := func() (n int) {
		for i := range 50 {
			if c.Get(questionOf(t, ask(t, fmt.Sprintf("popular%d.example.com. TXT", i))), start).State != cache.Miss {
				n++
			}
		}
		return n
	}
	for round := range 20 {
		if n := stayed(); n != 50 {
			t.Fatalf("round %d: %d of 50 are left", round, n)
		}
		fill(t, c, fmt.Sprintf("once%d-", round), 40, 1)
	}
}

// Expired entries are evicted first, however popular.
func TestPut_ExpiredEntriesEvicted(t *testing.T) {
	c := newCache(t, cache.Config{MaxEntries: 2})
	put := func(name string, ttl int, now time.Time) {
		query := ask(t, name+" A")
		c.Put(questionOf(t, query), reply(t, query, 0, fmt.Sprintf("%s %d A 192.0.2.1", name, ttl)), now, cache.PutOptions{})
	}
	get := func(name string, now time.Time) cache.State {
		return c.Get(questionOf(t, ask(t, name+" A")), now).State
	}
	put("long.example.com.", 300, start)
	put("short.example.com.", 1, start)
	get("long.example.com.", start)
	get("short.example.com.", start)
	put("new.example.com.", 300, start.Add(time.Second+cache.MaxStale))
	if got := get("long.example.com.", start.Add(time.Second+cache.MaxStale)); got != cache.Stale {
		t.Errorf("%v", got)
	}
}

func TestGet_NoAllocations(t *testing.T) {
	c := newCache(t, cache.Config{})
	query := ask(t, "www.example.com. A")
	q := questionOf(t, query)
	var records strings.Builder
	for i := range 4 {
		fmt.Fprintf(&records, "www.example.com. 300 A 192.0.2.%d\n", i)
	}
	c.Put(q, reply(t, query, 0, records.String()), start, cache.PutOptions{})
	q.Paths = []byte("ns.svc.cluster.local")
	miss := testing.AllocsPerRun(100, func() { c.Get(q, start) })
	q.Paths = nil
	buf := make([]byte, 0, 512)
	hit := testing.AllocsPerRun(100, func() {
		hit := c.Get(q, start)
		buf = hit.Append(buf[:0], cache.ReplyOptions{ID: 1, RD: true})
	})
	if miss != 0 || hit != 0 || len(buf) == 0 {
		t.Errorf("%v allocations a miss, %v a hit of %d bytes", miss, hit, len(buf))
	}
}

// Concurrent readers, writers and Clear: each hit is whole. Needs the race detector.
func TestCache_Concurrent(t *testing.T) {
	c := newCache(t, cache.Config{MaxEntries: 20})
	var queries, replies []*dns.Msg
	for i := range 40 {
		query := ask(t, fmt.Sprintf("n%d.example.com. A", i))
		queries = append(queries, query)
		replies = append(replies, reply(t, query, 0, fmt.Sprintf("n%d.example.com. 300 A 192.0.2.%d", i, i)))
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() { useCache(t, c, worker, queries, replies) })
	}
	all.Wait()
	if got := c.Stats(); got.Entries > 20 {
		t.Errorf("%+v", got)
	}
}

// useCache performs random operations: worker 0 also clears the cache, workers 1 and 2 write,
// the others read.
func useCache(t *testing.T, c *cache.Cache, worker int, queries, replies []*dns.Msg) {
	random := rand.New(rand.NewPCG(1, uint64(worker)))
	for step := range 2000 {
		i := random.IntN(len(queries))
		q := questionOf(t, queries[i])
		switch {
		case worker == 0 && step%500 == 499:
			c.Clear()
		case worker < 3:
			c.Put(q, replies[i], start, cache.PutOptions{})
		default:
			hit := c.Get(q, start)
			if m := message(hit, cache.ReplyOptions{}); m != nil && m.Answer[0].String() != replies[i].Answer[0].String() {
				t.Errorf("%v for %v", m.Answer, queries[i].Question)
			}
		}
	}
}
