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
)

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

// TestWalk_TypeFound: a candidate with records of the client's type is found at once, even if the
// query for another type that the walk needs otherwise gets no reply.
func TestWalk_TypeFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			return replyExcept(ctx, q, dns.TypeAAAA, func(m *dns.Msg) {
				m.Answer = nil
				if q.Question[0].Qtype == dns.TypeTXT {
					m.Answer = []dns.RR{&dns.TXT{Hdr: header(q.Question[0].Name, dns.TypeTXT, 300), Txt: []string{"found"}}}
				}
			})
		}})
		for _, from := range []string{"upstream", "cache"} {
			begin := time.Now()
			m := exchangeDirect(t, s, parseQuery(autopathName("n.example", "shop")+" TXT", true))
			if took := time.Since(begin); m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 || took != 0 {
				t.Errorf("%s: got %v after %v, want the alias and the text at once", from, m, took)
			}
		}
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
