// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// silentTime is how long a query to a server waits that does not reply.
const silentTime = 4 * time.Second

// silentFor returns servers that reply with an address, except to names that contain the text.
func silentFor(t *testing.T, text string) Exchange {
	return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		if !strings.Contains(q.Question[0].Name, text) {
			return newReply(t, q, validAddr), nil
		}
		select {
		case <-time.After(silentTime):
			return nil, errors.New("timeout")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// noReply is the rcode of a reply that is not sent.
const noReply = -1

// pending are the replies to queries that were sent and not awaited.
type pending []chan *dns.Msg

// sendQuery handles a query of a client, without waiting for other servers.
func sendQuery(t *testing.T, s *Server, client netip.Addr, m *dns.Msg) chan *dns.Msg {
	t.Helper()
	q := &query{via: overUDP, client: client, received: time.Now()}
	replies := make(chan *dns.Msg, 1)
	unpack := func(r reply) {
		m := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: noReply}}
		if r.wire != nil && m.Unpack(r.wire) != nil {
			t.Error("invalid reply")
		}
		replies <- m
	}
	r, wait := s.handle(t.Context(), q, mustPack(t, m), nil)
	if wait == nil {
		unpack(r)
		return replies
	}
	q.detach()
	s.running.Go(func() {
		r := wait(t.Context())
		s.observeReply(q, r)
		unpack(r)
	})
	return replies
}

// rcodes counts the replies by rcode, once all queries are answered.
func (p pending) rcodes() map[string]int {
	counts := map[string]int{}
	for _, c := range p {
		counts[cmp.Or(dns.RcodeToString[(<-c).Rcode], "no reply")]++
	}
	return counts
}

// send sends n queries for NAME-I.DOMAIN.
func (p *pending) send(t *testing.T, s *Server, client netip.Addr, n int, name, domain string, qtype uint16) {
	t.Helper()
	for i := range n {
		*p = append(*p, sendQuery(t, s, client, newQuery(fmt.Sprintf("%s%d.%s", name, i, domain), qtype)))
	}
}

// expectRcodes fails the test unless all replies have the rcode.
func expectRcodes(t *testing.T, what string, p pending, rcode string) {
	t.Helper()
	if got := p.rcodes(); got[rcode] != len(p) {
		t.Errorf("%s: got %v, want %d of %s", what, got, len(p), rcode)
	}
}

// expectFree fails the test unless no slot is in use.
func (s *testServer) expectFree(t *testing.T) {
	t.Helper()
	for kind := range numKinds {
		if n := s.counterSum(t, "dnsconfigurer_dns_slots_in_use", "budget="+kind.String()); n != 0 {
			t.Errorf("%d slots of %v are in use", n, kind)
		}
	}
	expectUnused(t, s.queries)
}

// newNode returns a node cache with servers for the cluster, and servers for everything else.
func newNode(t *testing.T, cluster, other Exchange) *testServer {
	stubs := []Stub{{Zone: clusterDomain, Exchange: cluster},
		{Zone: zone.InAddrArpa, Exchange: other}, {Zone: zone.IP6Arpa, Exchange: other}}
	s := newCachingServer(t, Config{Upstream: other, Stubs: stubs})
	s.SetForwarding(Forwarding{Upstream: other, Stubs: stubs, Expander: other})
	return s
}

var otherPod = netip.MustParseAddr("10.244.1.8")

// TestSlots_SearchLists: search lists of silent domains delay no plain names, whether their client is
// the same or not, and leave room for the lists of others.
func TestSlots_SearchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, "loaded", Config{Upstream: silentFor(t, "dead")})
		var lists []string
		for i := range MaxHostSuffixes {
			lists = append(lists, fmt.Sprintf("d%d.dead.example", i))
		}
		var flood, plain, others pending
		for i := range 2000 {
			flood = append(flood,
				sendQuery(t, s.Server, podAddr, newQuery(fmt.Sprintf("w%d.example.", i), dns.TypeA, strings.Join(lists, ","))))
		}
		synctest.Wait()
		if n := s.counterSum(t, "dnsconfigurer_dns_slots_in_use", "budget=search"); n < 3000 {
			t.Errorf("search lists have %d slots: the test does not reach the limit", n)
		}
		plain.send(t, s.Server, podAddr, 50, "a", "example.", dns.TypeA) // of the reserve for plain names
		time.Sleep(replaceAfter)
		plain.send(t, s.Server, podAddr, 100, "c", "example.", dns.TypeA)
		plain.send(t, s.Server, otherPod, 100, "b", "example.", dns.TypeA)
		expectRcodes(t, "plain names", plain, "NOERROR")
		others = append(others, sendQuery(t, s.Server, otherPod, newQuery("www.", dns.TypeA, "example")))
		expectRcodes(t, "a search list of another client", others, "NOERROR")
		flood.rcodes()
		s.running.Wait() // queries outlive their walk
		s.expectFree(t)
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget=search", "reason=budget"); n == 0 {
			t.Error("no refusal was counted")
		}
	})
}

// TestSlots_WithoutEDNS: a client that cannot read why a query was refused gets no reply, and asks again. The failure of
// other servers is a reply, also to such a client, and so is a refusal for another reason.
func TestSlots_WithoutEDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, "loaded", Config{Upstream: silentFor(t, "hang")})
		s.queries.maxPinned = 10
		send := func(p *pending, n int, name string) {
			for i := range n {
				*p = append(*p, sendQuery(t, s.Server, podAddr, new(dns.Msg).SetQuestion(fmt.Sprint(name, i, ".hang.example."), dns.TypeA)))
			}
		}
		var pinned, replaced, refused, later pending
		send(&pinned, 10, "p")
		send(&replaced, DefaultMaxQueries-10-3*DefaultMaxQueries/32-DefaultMaxQueries/16, "w")
		send(&refused, 10, "x")
		expectRcodes(t, "no slot", refused, "no reply")
		time.Sleep(replaceAfter)
		send(&later, len(replaced), "y")
		expectRcodes(t, "replaced", replaced, "no reply")
		expectRcodes(t, "silent servers", slices.Concat(pinned, later), "SERVFAIL")
		notDesired := new(dns.Msg).SetQuestion("www.example.", dns.TypeA)
		notDesired.RecursionDesired = false
		expectRcodes(t, "without RD", pending{sendQuery(t, s.Server, podAddr, notDesired)}, "REFUSED")
		synctest.Wait()
		s.expectFree(t)
	})
}

// TestPaused: a server that was paused may have lost replies. Other servers have not failed then: only a client
// that can read that gets a reply, nothing is cached, and a stale answer is served.
func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paused, reply := false, silentFor(t, "-")
		s := newTestServer(t, "loaded", Config{Paused: func() bool { return paused },
			Upstream: func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) { return reply(ctx, m) }})
		ask := func(when, name, want string, edns bool) {
			t.Helper()
			expectRcodes(t, when, pending{sendQuery(t, s.Server, podAddr, parseQuery(name+".example. A", edns))}, want)
			time.Sleep(silentTime) // a stale answer does not wait for the servers
			synctest.Wait()
		}
		ask("before", "cached", "NOERROR", false)
		time.Sleep(61 * time.Second) // the TTL is 60 s
		paused, reply = true, silentFor(t, "")
		ask("paused", "new", "no reply", false)
		ask("paused, with EDNS", "new", "SERVFAIL", true)
		ask("paused, a stale answer", "cached", "NOERROR", false)
		paused, reply = false, silentFor(t, "-")
		ask("after", "new", "NOERROR", false)
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=paused"); n != 3 {
			t.Errorf("%d refusals were counted, want 3", n)
		}
	})
}

// TestLateFailure: a C library that has sent its query again gets no failure for the first one.
func TestLateFailure(t *testing.T) {
	for _, tt := range []struct {
		err   error
		after time.Duration
		edns  bool
		want  string
	}{
		{errUnreachable, clientTimeout, false, "SERVFAIL"},
		{errUnreachable, clientTimeout + time.Millisecond, false, "no reply"},
		{errUnreachable, clientTimeout + time.Millisecond, true, "SERVFAIL"},
		{nil, clientTimeout + time.Millisecond, false, "NXDOMAIN"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t, "loaded", Config{Upstream: func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
				time.Sleep(tt.after)
				return new(dns.Msg).SetRcode(m, dns.RcodeNameError), tt.err
			}})
			expectRcodes(t, fmt.Sprint(tt), pending{sendQuery(t, s.Server, podAddr, parseQuery("www.example. A", tt.edns))}, tt.want)
		})
	}
}

// TestSlots_NodeCache: on a node cache with a silent server the cluster's names are answered,
// whatever else is outstanding.
func TestSlots_NodeCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNode(t, silentFor(t, "never"), silentFor(t, ""))
		var flood, cluster pending
		for i := range 200 {
			client := clientAddr(i)
			flood.send(t, s.Server, client, 20, fmt.Sprint("1.", i, "."), "168.192.in-addr.arpa.", dns.TypePTR)
			flood.send(t, s.Server, client, 20, fmt.Sprint("w", i, "-"), "example.", dns.TypeA)
			for j := range 20 {
				flood = append(flood,
					sendQuery(t, s.Server, client, newQuery(autopathName(fmt.Sprintf("l%d-%d.", i, j), "default"), dns.TypeA)))
			}
		}
		if n := s.queries.inUse(); n != DefaultMaxQueries-DefaultMaxQueries/32 {
			t.Errorf("%d slots are in use, want all except those of cluster names", n)
		}
		for _, kind := range []string{"reverse", "search", "plain"} {
			if s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget="+kind, "reason=budget") == 0 {
				t.Errorf("%s: no refusal was counted", kind)
			}
		}
		for i := range 3 {
			cluster.send(t, s.Server, clientAddr(i), 40, fmt.Sprint("db", i, "-"), "default.svc.cluster.local.", dns.TypeA)
		}
		expectRcodes(t, "names of the cluster", cluster, "NOERROR")
		expectRcodes(t, "all others", flood, "SERVFAIL")
		synctest.Wait()
		s.expectFree(t)
	})
}

// TestSlots_Stale: without a slot a stale answer is returned at once, and is not marked as
// failing: the next query asks the servers.
func TestSlots_Stale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, "loaded", Config{Upstream: silentFor(t, "hang")})
		expectRcodes(t, "the first query", pending{sendQuery(t, s.Server, podAddr, newQuery("www.example.", dns.TypeA))}, "NOERROR")
		time.Sleep(61 * time.Second)
		var flood pending
		flood.send(t, s.Server, podAddr, DefaultMaxQueries, "w", "hang.example.", dns.TypeA)
		begin := time.Now()
		stale := <-sendQuery(t, s.Server, podAddr, newQuery("www.example.", dns.TypeA))
		if addresses(stale) != validAddr || extendedCode(stale) != int(dns.ExtendedErrorCodeStaleAnswer) || time.Since(begin) != 0 {
			t.Errorf("after %v: got %v, want the stale answer at once", time.Since(begin), stale)
		}
		fresh := <-sendQuery(t, s.Server, otherPod, newQuery("www.example.", dns.TypeA))
		if addresses(fresh) != validAddr || extendedCode(fresh) >= 0 {
			t.Errorf("got %v, want a new answer", fresh)
		}
		flood.rcodes()
		synctest.Wait()
		s.expectFree(t)
	})
}

// TestSlots_StaleContinues: after a client got a stale answer, the query to the servers has
// the slot until it ends.
func TestSlots_StaleContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := "nothing"
		s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			return silentFor(t, silent)(ctx, q)
		}})
		exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
		time.Sleep(61 * time.Second)
		silent = "www"
		exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
		if n := s.counterSum(t, "dnsconfigurer_dns_slots_in_use", "budget=plain"); n != 1 {
			t.Errorf("%d slots are in use after the stale answer, want 1", n)
		}
		time.Sleep(silentTime)
		synctest.Wait()
		s.expectFree(t)
	})
}

// TestSlots_Prefetch: half of the slots are in use, and no answer is prefetched.
func TestSlots_Prefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{}
		s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if strings.Contains(q.Question[0].Name, "hang") {
				return silentFor(t, "hang")(ctx, q)
			}
			return up.exchange(ctx, q)
		}})
		for range 4 {
			exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
		}
		time.Sleep(95 * time.Second) // of 100
		var flood pending
		flood.send(t, s.Server, podAddr, DefaultMaxQueries/2, "w", "hang.example.", dns.TypeA)
		exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
		flood.rcodes()
		if n := up.queries.Load(); n != 1 {
			t.Errorf("%d queries while the servers were busy, want 1", n)
		}
		time.Sleep(time.Second)
		exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
		synctest.Wait()
		if n := up.queries.Load(); n != 2 {
			t.Errorf("%d queries afterwards, want 2", n)
		}
		s.expectFree(t)
	})
}

// TestSlots_ManyClients: hundreds of clients that query names of silent servers all the time do not make
// names of others fail, also those that take longer than replaceAfter. The replaced queries are refused and not
// cached, their upstream queries end.
func TestSlots_ManyClients(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		qtype                   uint16
		domain                  string
		clients, hostile, every int           // hostile: queries in 10 ms; every: 10 ms between good queries
		good                    []int         // queries of each good client at once
		takes                   time.Duration // of the good ones
	}{
		{"addresses", dns.TypeA, "example.", 300, 30, 5, []int{20}, 0},
		{"reverse names", dns.TypePTR, "8.8.in-addr.arpa.", 300, 30, 5, []int{20}, 0},
		{"slow names", dns.TypeA, "example.", 200, 20, 20, []int{2, 2, 2}, 3 * replaceAfter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent := silentFor(t, "silent")
				s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
					if strings.HasPrefix(q.Question[0].Name, "good") {
						time.Sleep(tt.takes)
					}
					if ctx.Err() != nil {
						return nil, ctx.Err()
					}
					return silent(ctx, q)
				}})
				var hostile, good pending
				for tick := range 600 { // 6 s
					for range tt.hostile {
						i := len(hostile)
						hostile.send(t, s.Server, clientAddr(i%tt.clients), 1, fmt.Sprintf("silent%d-", i), tt.domain, tt.qtype)
					}
					time.Sleep(10 * time.Millisecond)
					for client, n := range tt.good {
						if tick%tt.every == 3*client {
							good.send(t, s.Server, clientAddr(1000+client), n, fmt.Sprintf("good%d-%d-", client, tick), tt.domain, tt.qtype)
						}
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
		})
	}
}

// TestLimits_Parts checks what follows from the limits: queries, connections, long replies, octets and entries of the
// cache.
func TestLimits_Parts(t *testing.T) {
	for limits, want := range map[Limits]string{
		{}:                                      "4096 4096 128 16777216 20020",
		{MaxQueries: 100, MaxMemory: 4 << 20}:   "100 256 8 1048576 1251",
		{MaxQueries: 65535, MaxMemory: 1 << 30}: "65535 65536 2048 268435456 320328",
	} {
		l, cache := limits.withDefaults(), limits.CacheConfig()
		if got := fmt.Sprint(l.MaxQueries, l.maxConnections(), l.maxReplies(), cache.MaxBytes, cache.MaxEntries); got != want {
			t.Errorf("%+v: got %q, want %q", limits, got, want)
		}
	}
}

// TestNodeCache_RefusalNotCached: while all slots of the cluster DNS are in use, it refuses queries for
// names that other servers answer. Such a refusal says nothing about the name: it is not cached, and a
// stale answer stays in use.
func TestNodeCache_RefusalNotCached(t *testing.T) {
	node := netip.MustParseAddr("10.0.0.1") // the client that the cluster DNS sees
	for _, tt := range []struct {
		name, question, flood string
		qtype                 uint16
	}{
		{"ExternalName", "ext.shop.svc.cluster.local. A", "dead.example.", dns.TypeA},
		{"reverse name", "1.113.0.203.in-addr.arpa. A", "dead.in-addr.arpa.", dns.TypePTR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newTestServer(t, shopCluster+"\nservice shop/ext external=www.example", Config{Upstream: silentFor(t, "dead")})
				c := &clusterDNS{Server: cluster.Server}
				s := newNodeCache(t, c.forwarding(t, nil))
				ask := func(when, want string, wantCode int) {
					t.Helper()
					m := <-sendQuery(t, s.Server, otherPod, parseQuery(tt.question, true))
					if addresses(m) != want || extendedCode(m) != wantCode {
						t.Errorf("%s: got %v, want %s with the extended error %d", when, m, want, wantCode)
					}
				}
				var flood pending
				flood.send(t, cluster.Server, node, DefaultMaxQueries, "n", tt.flood, tt.qtype)
				ask("without a slot", "SERVFAIL", extendedLimit)
				if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=upstream"); n != 1 {
					t.Errorf("%d refusals were counted, want 1", n)
				}
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("after the flood", validAddr, -1)

				time.Sleep(61 * time.Second) // the TTL is 60 s
				cluster.cache.Clear()        // or the cluster DNS has a stale answer, too
				flood = nil
				flood.send(t, cluster.Server, node, DefaultMaxQueries, "m", tt.flood, tt.qtype)
				ask("stale, without a slot", validAddr, int(dns.ExtendedErrorCodeStaleAnswer))
				expectRcodes(t, "silent names", flood, "SERVFAIL")
				ask("stale, after the flood", validAddr, -1)
				s.running.Wait()
				cluster.running.Wait()
			})
		})
	}
}

// TestNodeCache_ForeignRefusal: the extended error of a refusal has no meaning from the servers of other
// names. Their owner could otherwise keep failures out of the cache, so that each query is forwarded.
func TestNodeCache_ForeignRefusal(t *testing.T) {
	forwarded := 0
	foreign := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		forwarded++
		m := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		m.SetEdns0(maxUDP, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: extendedLimit}}
		return m, nil
	}
	stub := Stub{Zone: mustName(t, "2.0.192.in-addr.arpa"), Exchange: foreign}
	s := newNodeCache(t, Forwarding{Upstream: foreign, Stubs: []Stub{stub}})
	for i, question := range []string{"www.example. A", "1.113.0.203.in-addr.arpa. PTR", "1.2.0.192.in-addr.arpa. PTR"} {
		for range 3 {
			if m := exchangeDirect(t, s.Server, parseQuery(question, true)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: got %v, want SERVFAIL", question, m)
			}
		}
		if forwarded != i+1 {
			t.Errorf("%s: %d queries were forwarded, want %d", question, forwarded, i+1)
		}
	}
}
