// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
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

// pending are the replies to queries that were sent and not awaited.
type pending []chan *dns.Msg

// sendQuery handles a query of a client, without waiting for other servers.
func sendQuery(t *testing.T, s *Server, client netip.Addr, m *dns.Msg) chan *dns.Msg {
	t.Helper()
	q := &query{via: overUDP, client: client, received: time.Now()}
	replies := make(chan *dns.Msg, 1)
	unpack := func(r reply) {
		m := new(dns.Msg)
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
		s.metrics.observeReply(q, r)
		unpack(r)
	})
	return replies
}

// rcodes counts the replies by rcode, once all queries are answered.
func (p pending) rcodes() map[string]int {
	counts := map[string]int{}
	for _, c := range p {
		counts[dns.RcodeToString[(<-c).Rcode]]++
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

// gauge returns the value of a gauge of a budget.
func (s *testServer) gauge(t testing.TB, metric, budget string) int {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == metric && m.GetLabel()[0].GetValue() == budget {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	t.Fatalf("no metric %s of %s", metric, budget)
	return 0
}

// expectFree fails the test unless no slot is in use.
func (s *testServer) expectFree(t *testing.T) {
	t.Helper()
	for w, b := range s.slotPools {
		if n := s.gauge(t, "dnsconfigurer_dns_slots_in_use", budgetKind(w).String()); n != 0 {
			t.Errorf("%d slots of %v are in use", n, budgetKind(w))
		}
		expectUnused(t, b.budget)
	}
}

// newNode returns a node cache with servers for the cluster, and servers for everything else.
func newNode(t *testing.T, cluster, other Exchange) *testServer {
	stubs := []Stub{{Zone: clusterDomain, Exchange: cluster}, {Zone: reverseV4, Exchange: other}, {Zone: reverseV6, Exchange: other}}
	s := newCachingServer(t, Config{Upstream: other, Stubs: stubs})
	s.SetForwarding(Forwarding{Upstream: other, Stubs: stubs, Expander: other})
	return s
}

var otherPod = netip.MustParseAddr("10.244.1.8")

// TestSlots_SearchLists: search lists of silent domains take no slot of plain names, whether
// their client is the same or not, and leave room for the lists of others.
func TestSlots_SearchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, "loaded", Config{Upstream: silentFor(t, "dead")})
		var lists []string
		for i := range MaxHostSuffixes {
			lists = append(lists, fmt.Sprintf("d%d.dead.example", i))
		}
		var flood, plain, others pending
		for i := range 200 {
			flood = append(flood,
				sendQuery(t, s.Server, podAddr, newQuery(fmt.Sprintf("w%d.example.", i), dns.TypeA, strings.Join(lists, ","))))
		}
		synctest.Wait()
		if n, limit := s.gauge(t, "dnsconfigurer_dns_slots_in_use", "search"),
			s.gauge(t, "dnsconfigurer_dns_slots_limit", "search"); limit != 1024 || n == 0 || n > limit*2/5 {
			t.Errorf("one client has %d of %d slots for search lists", n, limit)
		}
		plain.send(t, s.Server, podAddr, 100, "a", "example.", dns.TypeA)
		plain.send(t, s.Server, otherPod, 100, "b", "example.", dns.TypeA)
		expectRcodes(t, "plain names", plain, "NOERROR")
		others = append(others, sendQuery(t, s.Server, otherPod, newQuery("www.", dns.TypeA, "example")))
		expectRcodes(t, "a search list of another client", others, "NOERROR")
		flood.rcodes()
		s.running.Wait() // queries outlive their walk
		s.expectFree(t)
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget=search", "reason=client"); n == 0 {
			t.Error("no rejection was counted")
		}
	})
}

// TestSlots_PlainNames: the names of one client that no server answers leave slots to others.
// The names that were refused are not cached.
func TestSlots_PlainNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := "hang"
		s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			return silentFor(t, silent)(ctx, q)
		}})
		var flood, refused, others pending
		flood.send(t, s.Server, podAddr, 1017, "w", "hang.example.", dns.TypeA) // all of its share
		refused.send(t, s.Server, podAddr, 10, "x", "example.", dns.TypeA)
		expectRcodes(t, "above the share", refused, "SERVFAIL")
		for i := range 100 {
			others.send(t, s.Server, clientAddr(i), 1, fmt.Sprint("y", i), "example.", dns.TypeA)
		}
		expectRcodes(t, "other clients", others, "NOERROR")
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget=plain", "reason=client"); n != 10 {
			t.Errorf("%d refusals were counted, want 10", n)
		}
		expectRcodes(t, "the silent names", flood, "SERVFAIL")
		synctest.Wait()
		s.expectFree(t)
		var again pending
		again.send(t, s.Server, podAddr, 10, "x", "example.", dns.TypeA)
		expectRcodes(t, "the refused names, at once", again, "NOERROR")
	})
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
		for _, budget := range []string{"reverse", "search", "plain"} {
			if n, limit := s.gauge(t, "dnsconfigurer_dns_slots_in_use", budget),
				s.gauge(t, "dnsconfigurer_dns_slots_limit", budget); n != limit {
				t.Errorf("%s: %d of %d slots are in use", budget, n, limit)
			}
			if s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget="+budget, "reason=budget") == 0 {
				t.Errorf("%s: no refusal was counted", budget)
			}
		}
		for i := range 3 {
			cluster.send(t, s.Server, clientAddr(i), 50, fmt.Sprint("db", i, "-"), "default.svc.cluster.local.", dns.TypeA)
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
		flood.send(t, s.Server, podAddr, 1017, "w", "hang.example.", dns.TypeA)
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
		if n := s.gauge(t, "dnsconfigurer_dns_slots_in_use", "plain"); n != 1 {
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
		for i := range 100 {
			flood.send(t, s.Server, clientAddr(i), 14, fmt.Sprint("w", i, "-"), "hang.example.", dns.TypeA)
		}
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

// TestSlots_Released: a slot is released when the servers' code panics, when the server shuts
// down, and after every kind of answer.
func TestSlots_Released(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mode := ""
		s := newNode(t, silentFor(t, "never"), func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			switch mode {
			case "panic":
				panic(mode)
			case "error":
				return nil, errUnreachable
			case "SERVFAIL":
				return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure), nil
			}
			return silentFor(t, "")(ctx, q)
		})
		for _, mode = range []string{"panic", "error", "SERVFAIL", "silent"} {
			var p pending
			p.send(t, s.Server, podAddr, 3, mode, "example.", dns.TypeA)
			p.send(t, s.Server, podAddr, 3, mode, "10.in-addr.arpa.", dns.TypePTR)
			p = append(p, sendQuery(t, s.Server, podAddr, newQuery(autopathName(mode, "default"), dns.TypeA)))
			p.rcodes()
			synctest.Wait()
			s.expectFree(t)
		}
	})
}

// TestSlots_Shutdown: queries that wait when the server shuts down release their slots.
func TestSlots_Shutdown(t *testing.T) {
	s := startServer(t, "loaded", Config{Upstream: func(ctx context.Context, _ *dns.Msg) (*dns.Msg, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c, err := net.Dial("udp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const queries = 20
	for i := range queries {
		c.Write(mustPack(t, newQuery(fmt.Sprintf("w%d.example.", i), dns.TypeA)))
	}
	poll.Until(t, "all queries to wait", func() bool { return s.gauge(t, "dnsconfigurer_dns_slots_in_use", "plain") >= queries })
	s.stop()
	if err := <-s.result; err != nil {
		t.Error(err)
	}
	s.result <- nil // for the cleanup
	s.expectFree(t)
}

// TestSlots_NoServers: a refusal of the client of the upstream servers is counted, and not
// cached.
func TestSlots_NoServers(t *testing.T) {
	for _, tt := range []struct {
		err    error
		reason string
		text   string
	}{
		{upstream.ErrNoServers, "no_servers", "no upstream server is known"},
		{fmt.Errorf("cluster DNS: %w", upstream.ErrLoop), "loop", "the upstream servers send queries back to this server"},
	} {
		s := newTestServer(t, "namespace default\nservice default/ext external=db.example\nloaded", Config{
			Upstream: func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, tt.err },
		})
		for _, name := range []string{"www.example.", "ext.default.svc.cluster.local.", autopathName("www", "default")} {
			m := exchangeDirect(t, s.Server, newQuery(name, dns.TypeA))
			if m.Rcode != dns.RcodeServerFailure || !strings.Contains(m.String(), tt.text) {
				t.Errorf("%s: got %v, want SERVFAIL: %s", name, m, tt.text)
			}
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason="+tt.reason); n < 3 {
			t.Errorf("%s: %d refusals, want at least 3", tt.reason, n)
		}
		if n := s.cache.Stats().Entries; n != 0 {
			t.Errorf("%s: %d refusals are cached", tt.reason, n)
		}
	}
}

// TestSlots_FastPath: answers that need no other server take no slot.
func TestSlots_FastPath(t *testing.T) {
	s := newTestServer(t, smallCluster, Config{Upstream: silentFor(t, "never")})
	exchangeDirect(t, s.Server, newQuery("www.example.", dns.TypeA))
	for w := range s.slotPools {
		s.slotPools[w] = nil // a use would panic
	}
	for _, name := range []string{"web.default.svc.cluster.local.", "none.default.svc.cluster.local.", "www.example."} {
		if m := exchangeDirect(t, s.Server, newQuery(name, dns.TypeA)); m.Rcode == dns.RcodeServerFailure {
			t.Errorf("%s: got %v", name, m)
		}
	}
}

// TestNew_Limits checks both sides of each limit.
func TestNew_Limits(t *testing.T) {
	for _, tt := range []struct {
		limits Limits
		want   string // slots of plain, cluster, reverse, search on a node cache; "": an error
	}{
		{Limits{}, "[819 512 204 512]"},
		{Limits{MaxConcurrent: 4096}, "[1638 1024 409 1024]"},
		{Limits{MaxConcurrent: MinConcurrent}, "[40 25 10 25]"},
		{Limits{MaxConcurrent: MinConcurrent - 1}, ""},
		{Limits{MaxConcurrent: MaxConcurrent}, "[26214 16383 6553 16383]"},
		{Limits{MaxConcurrent: MaxConcurrent + 1}, ""},
		{Limits{MaxConcurrent: -1}, ""},
		{Limits{MaxConcurrent: 4096, SearchRate: 1, SearchBurst: MinSearchBurst}, "[1638 1024 409 1024]"},
		{Limits{SearchRate: -1}, ""},
		{Limits{SearchBurst: MinSearchBurst - 1}, ""},
		{Limits{MaxConcurrent: 100, ClusterShare: 55}, "[10 55 10 25]"},
		{Limits{ClusterShare: 56}, ""},
		{Limits{MaxConcurrent: 100, ClusterShare: 1, ReverseShare: 1, SearchShare: 1}, "[97 1 1 1]"},
		{Limits{ReverseShare: -1}, ""},
		{Limits{SearchShare: -1}, ""},
		{Limits{ClusterShare: -1}, ""},
		{Limits{MaxTCPQueries: MinConcurrent, MaxConnectionQueries: 1}, "[819 512 204 512]"},
		{Limits{MaxTCPQueries: MaxConcurrent, MaxConnectionQueries: MaxConcurrent}, "[819 512 204 512]"},
		{Limits{MaxTCPQueries: MinConcurrent - 1}, ""},
		{Limits{MaxTCPQueries: MaxConcurrent + 1}, ""},
		{Limits{MaxConnectionQueries: -1}, ""},
		{Limits{MaxConnectionQueries: MaxConcurrent + 1}, ""},
		{Limits{MaxReplyOctets: MinReplyOctets, MaxClientReplyOctets: MinReplyOctets}, "[819 512 204 512]"},
		{Limits{MaxReplyOctets: MaxReplyOctets, MaxClientReplyOctets: MaxReplyOctets}, "[819 512 204 512]"},
		{Limits{MaxReplyOctets: MinReplyOctets - 1}, ""},
		{Limits{MaxReplyOctets: MaxReplyOctets + 1}, ""},
		{Limits{MaxClientReplyOctets: MinReplyOctets - 1}, ""},
		{Limits{MaxClientReplyOctets: MaxReplyOctets + 1}, ""},
	} {
		got := ""
		if err := tt.limits.setDefaults(true); err == nil {
			var list []int64
			for _, b := range newSlotPools(tt.limits) {
				list = append(list, b.limit)
			}
			got = fmt.Sprint(list)
		}
		if got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.limits, got, tt.want)
		}
	}
	limits := Limits{ReverseShare: 60, SearchShare: 30}
	if err := limits.setDefaults(false); err != nil || limits.MaxConcurrent != 4096 {
		t.Errorf("%+v without a cluster share: %v", limits, err)
	}
	if limits.ClusterShare = 1; limits.setDefaults(false) == nil {
		t.Error("a cluster share is accepted by a server of the zone")
	}
	if _, err := New(Config{Cache: newServer(t, "loaded", Config{}).cfg.Cache, Domain: clusterDomain,
		Limits: Limits{MaxConcurrent: 1}}); err == nil || !strings.Contains(err.Error(), "MaxConcurrent 1: want 100 to 65535") {
		t.Errorf("MaxConcurrent 1: %v", err)
	}
}
