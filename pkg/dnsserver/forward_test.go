// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestForward_RefusedExpansion: a refusal that the expansion of a search list has counted is not counted
// again.
func TestForward_RefusedExpansion(t *testing.T) {
	s := newTestServer(t, smallCluster, Config{})
	q := &query{client: podAddr, received: time.Now()}
	if !q.parse(mustPack(t, parseQuery("www.example. A", true))) {
		t.Fatal("not a query")
	}
	refuse := func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, refusedLimit }
	to := destination{forwarding: new(Forwarding), Stub: Stub{Exchange: refuse}}
	if a := s.ask(t.Context(), q, to); a.refused != refusedLimit || a.rcode != dns.RcodeServerFailure {
		t.Errorf("%+v", a)
	}
	for kind, counts := range s.metrics.refusals {
		if n := testutil.ToFloat64(counts[refusedLimit]); n > 0 {
			t.Errorf("%v: counted %v times", queryKind(kind), n)
		}
	}
}

// TestSetForwarding replaces the servers while a query is in flight. That query gets the reply, or the failure, of
// the server that it was sent to. The reply is not cached; those of the new servers are.
func TestSetForwarding(t *testing.T) {
	for _, err := range []error{nil, errUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			var current stubUpstream
			old := stubUpstream{blocked: make(chan struct{}), err: err}
			s := newTestServer(t, "loaded", Config{Upstream: old.exchange})
			lookup := func() string { return addresses(exchangeDirect(t, s.Server, parseQuery("a.example. A", true))) }
			inFlight := make(chan string)
			go func() { inFlight <- lookup() }()
			synctest.Wait()
			s.SetForwarding(Forwarding{Upstream: current.exchange})
			s.SetHostSuffixes(nil) // keeps the generation
			close(old.blocked)
			want := "192.0.2.1"
			if err != nil {
				want = "SERVFAIL"
			}
			if got := <-inFlight; got != want || s.cache.Stats().Entries != 0 || old.queries.Load() != 1 {
				t.Errorf("got %s, want %s; %d replies of the previous servers are cached", got, want, s.cache.Stats().Entries)
			}
			lookup()
			if got := lookup(); got != "192.0.2.1" || current.queries.Load() != 1 {
				t.Errorf("got %s after %d queries, want the cached reply of the new servers", got, current.queries.Load())
			}
			s.SetForwarding(Forwarding{Upstream: (&stubUpstream{rcode: dns.RcodeNameError}).exchange})
			if got := lookup(); got != "NXDOMAIN" {
				t.Errorf("after SetForwarding: got %s, want the reply of the third server", got)
			}
			s.SetForwarding(Forwarding{})
			if got := lookup(); got != "REFUSED" {
				t.Errorf("without servers: got %s, want REFUSED", got)
			}
		})
	}
}

// manyAddresses returns 4,000 A records, which take 64 kB of a message.
func manyAddresses(owner string) (records []dns.RR) {
	for i := range 4000 {
		records = append(records, &dns.A{Hdr: header(owner, dns.TypeA, 300), A: []byte{198, 18, byte(i >> 8), byte(i)}})
	}
	return records
}

// TestForward_HeldRecords has the upstream server send 64 kB of records for one type of each name, and
// no reply for another type that the server needs as well. The waiting queries do not hold the records.
func TestForward_HeldRecords(t *testing.T) {
	const queries = 60
	const limit = queries * 64 << 10 // 4,000 records take ten times as much for each query
	isNoData := func(m *dns.Msg) { m.Answer, m.Ns = nil, append(m.Ns, m.Answer...) }
	for name, tt := range map[string]struct {
		query  string // %d: the number of the query
		silent uint16 // type without a reply
		edit   func(*dns.Msg)
	}{
		"NODATA for a candidate":               {autopathName("n%d.example", "shop") + " A", dns.TypeAAAA, isNoData},
		"addresses of a candidate":             {autopathName("n%d.example", "shop") + " TXT", dns.TypeTXT, func(*dns.Msg) {}},
		"NODATA for the type, for a candidate": {autopathName("n%d.example", "shop") + " TXT", dns.TypeAAAA, isNoData},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var waiting atomic.Int32
				s := newServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
					return replyExcept(ctx, q, tt.silent, tt.edit)
				}})
				before := liveHeap()
				var sent sync.WaitGroup
				for i := range queries {
					packet := mustPack(t, parseQuery(strings.ReplaceAll(tt.query, "%d", fmt.Sprint(i)), true))
					waiting.Add(1)
					sent.Go(func() {
						handlePacket(ctx, s, packet, overUDP, podAddr)
						waiting.Add(-1)
					})
				}
				synctest.Wait()
				held := liveHeap() - before - s.cfg.Cache.Stats().Bytes
				if waiting.Load() != queries || held > limit {
					t.Errorf("%d queries wait and hold %d kB, want %d and at most %d kB", waiting.Load(), held>>10, queries, limit>>10)
				}
				cancel()
				sent.Wait()
			})
		})
	}
}

// TestForward_HeldStale: queries over TCP that wait for the refresh of the same stale answer of 64 kB do
// not hold a copy each. Each gets the answer in the end.
func TestForward_HeldStale(t *testing.T) {
	const queries = 60
	const limit = queries * 16 << 10
	synctest.Test(t, func(t *testing.T) {
		silent := uint16(dns.TypeNone)
		s := newServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			return replyExcept(ctx, q, silent, func(*dns.Msg) {})
		}})
		packet := mustPack(t, parseQuery("n.example. A", false))
		ask := func() {
			m := new(dns.Msg)
			if err := m.Unpack(handlePacket(t.Context(), s, packet, overTCP, podAddr)); err != nil || len(m.Answer) < 3000 {
				t.Errorf("%d records, %v", len(m.Answer), err)
			}
		}
		ask()
		time.Sleep(301 * time.Second)
		silent = dns.TypeA
		before := liveHeap()
		var sent sync.WaitGroup
		for range queries {
			sent.Go(ask)
		}
		synctest.Wait()
		if held := liveHeap() - before; held > limit {
			t.Errorf("%d queries hold %d kB, want at most %d kB", queries, held>>10, limit>>10)
		}
		sent.Wait()
	})
}

// replyExcept replies with 4,000 addresses and an SOA record, which edit changes, and does not reply
// for one type.
func replyExcept(ctx context.Context, q *dns.Msg, silent uint16, edit func(*dns.Msg)) (*dns.Msg, error) {
	if q.Question[0].Qtype == silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m := new(dns.Msg).SetReply(q)
	m.Answer = manyAddresses(q.Question[0].Name)
	m.Ns = []dns.RR{&dns.SOA{Hdr: header("example.", dns.TypeSOA, 300), Ns: ".", Mbox: ".", Minttl: 300}}
	edit(m)
	return m, nil
}

// liveHeap returns the octets of reachable memory.
func liveHeap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// longAlias returns an alias of owner to a name of 200 octets, and the name.
func longAlias(owner string, fill string) (record, target string) {
	target = strings.Repeat(strings.Repeat(fill, 63)+".", 3) + "example."
	return fmt.Sprintf("%s 300 IN CNAME %s\n", owner, target), target
}

// TestForward_Rotation: each address of an answer of another server is the first one in a quarter of
// the replies, cached or not. Aliases stay before their targets.
func TestForward_Rotation(t *testing.T) {
	first, second := longAlias("www.rotation.example.", "a")
	next, last := longAlias(second, "b")
	for name, tt := range map[string]struct {
		via       transport
		ttl       int    // 0: the reply is not cached
		chain     string // of aliases
		owner     string // of the addresses
		truncated bool
	}{
		"UDP, cached":     {via: overUDP, ttl: 300, owner: "www.rotation.example."},
		"UDP, not cached": {via: overUDP, owner: "www.rotation.example."},
		"TCP, cached":     {via: overTCP, ttl: 300, owner: "www.rotation.example."},
		"TCP, not cached": {via: overTCP, owner: "www.rotation.example."},
		"TCP, aliases":    {via: overTCP, ttl: 300, chain: first + next, owner: last},
		"TC, cached":      {via: overUDP, ttl: 300, chain: first + next, owner: last, truncated: true},
		"TC, not cached":  {via: overUDP, chain: first + next, owner: last, truncated: true},
	} {
		t.Run(name, func(t *testing.T) {
			records := tt.chain
			for i := range 4 {
				records += fmt.Sprintf("%s %d IN A 192.0.2.%d\n", tt.owner, tt.ttl, i)
			}
			s := newServer(t, smallCluster, Config{Upstream: parseRecords(t, records).exchange})
			counts := map[string]int{}
			for range 400 {
				m := exchangeVia(t, s, tt.via, podAddr, parseQuery("www.rotation.example. A", false))
				aliases := strings.Count(tt.chain, "\n")
				if m.Truncated != tt.truncated || len(m.Answer) < aliases+2 {
					t.Fatalf("got %v", m)
				}
				for i, rr := range m.Answer {
					if (rr.Header().Rrtype == dns.TypeCNAME) != (i < aliases) {
						t.Fatalf("got %v, want the aliases first", m)
					}
				}
				counts[m.Answer[aliases].(*dns.A).A.String()]++
			}
			for i := range 4 {
				if n := counts[fmt.Sprintf("192.0.2.%d", i)]; n < 60 || n > 140 {
					t.Errorf("192.0.2.%d is the first address of %d replies in 400, want 60 to 140", i, n)
				}
			}
		})
	}
}

// TestWithTarget_Shared: the fresh and the stale answer for the target of the same aliases share no
// memory.
func TestWithTarget_Shared(t *testing.T) {
	a := answer{answers: make([]dns.RR, 3, 4)}
	target := func(last byte) dns.RR { return &dns.A{Hdr: header("a.", dns.TypeA, 5), A: []byte{192, 0, 2, last}} }
	stale := a.withTarget(answer{answers: []dns.RR{target(1)}})
	a.withTarget(answer{answers: []dns.RR{target(2)}})
	if got := stale.answers[3].(*dns.A).A.String(); got != "192.0.2.1" {
		t.Errorf("the stale answer has %s", got)
	}
}
