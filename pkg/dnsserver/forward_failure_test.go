// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// TestForward_Reason: a failure from the cache has the reason of the first one, and says that it is
// from the cache (RFC 8914 sections 2 and 4.14). No reason has an address of a server.
func TestForward_Reason(t *testing.T) {
	silent := errors.New("192.0.2.53:53: read udp 10.244.0.9:40000->192.0.2.53:53: i/o timeout")
	malformed := fmt.Errorf("192.0.2.53:53: %w", upstream.ErrMalformed)
	const network = "23 no upstream server answered"
	for _, test := range []struct {
		name          string
		rcode         int // of the upstream server, without err
		err           error
		first, second string // extended errors
	}{
		{name: "silent", err: silent, first: network, second: network + ", 13"},
		{name: "malformed", err: malformed, first: "23 the upstream server's reply is malformed",
			second: "23 the upstream server's reply is malformed, 13"},
		{name: "SERVFAIL", rcode: dns.RcodeServerFailure, second: "13"},
		{name: "REFUSED", rcode: dns.RcodeRefused}, // 13 is for SERVFAIL
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, "loaded", Config{Upstream: func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
				return new(dns.Msg).SetRcode(m, test.rcode), test.err
			}})
			rcode := test.rcode
			if test.err != nil {
				rcode = dns.RcodeServerFailure
			}
			for i, want := range []string{test.first, test.second, test.second} {
				m := exchangeDirect(t, s, newQuery("www.example.", dns.TypeA))
				if got := extendedErrors(m); m.Rcode != rcode || got != want {
					t.Errorf("query %d: got %q, want %q: %v", i+1, got, want, m)
				}
			}
			if n := exchangeDirect(t, s, new(dns.Msg).SetQuestion("www.example.", dns.TypeA)); n.IsEdns0() != nil {
				t.Errorf("an OPT record for a client without EDNS0: %v", n)
			}
		})
	}
}

// TestSearch_Reason: the failure of a search list has the reasons of the candidate.
func TestSearch_Reason(t *testing.T) {
	s := newServer(t, "namespace shop\nloaded", Config{Upstream: func(context.Context, *dns.Msg) (*dns.Msg, error) {
		return nil, errors.New("timeout")
	}})
	for i, want := range []string{"23 no upstream server answered", "23 no upstream server answered, 13"} {
		m := exchangeDirect(t, s, newQuery("www.example.search.shop.cluster.local.ap.k8s.io.", dns.TypeA))
		if got := extendedErrors(m); m.Rcode != dns.RcodeServerFailure || got != want {
			t.Errorf("query %d: got %q, want %q: %v", i+1, got, want, m)
		}
	}
}

// TestAlias_Reason: ExternalNames that are a loop, or a chain of more than 10, fail with a reason.
// NODATA would be a permanent failure for glibc.
func TestAlias_Reason(t *testing.T) {
	cluster := "namespace default\nservice default/c0 10.96.0.7\n" +
		"service default/loop external=loop.default.svc.cluster.local\n"
	for i := range 11 {
		cluster += fmt.Sprintf("service default/c%d external=c%d.default.svc.cluster.local\n", i+1, i)
	}
	s := newServer(t, cluster+"loaded", Config{})
	for name, want := range map[string]string{"c9": "10.96.0.7", "c10": "10.96.0.7", "c11": "SERVFAIL", "loop": "SERVFAIL"} {
		m := exchangeDirect(t, s, newQuery(name+".default.svc.cluster.local.", dns.TypeA))
		if failed := extendedCode(m) == int(dns.ExtendedErrorCodeOther); addresses(m) != want || failed != (want == "SERVFAIL") {
			t.Errorf("%s: got %v, want %s", name, m, want)
		}
	}
}

// ttlUpstream replies to each name with a TTL of 5 and the number of the query as address. A
// name without an entry in rcodes gets NOERROR, one with a negative rcode no reply.
type ttlUpstream struct {
	rcodes  map[string]int
	queries map[string]int
}

func newTTLUpstream() *ttlUpstream {
	return &ttlUpstream{rcodes: map[string]int{}, queries: map[string]int{}}
}

func (u *ttlUpstream) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	name := q.Question[0].Name
	u.queries[name]++
	rcode := u.rcodes[name]
	if rcode < 0 {
		return nil, errUnreachable
	}
	m := new(dns.Msg).SetRcode(q, rcode)
	if rcode != dns.RcodeSuccess {
		return m, nil
	}
	rr, err := dns.NewRR(fmt.Sprintf("%s 5 IN A 192.0.2.%d", name, u.queries[name]))
	m.Answer = []dns.RR{rr}
	return m, err
}

// expectAnswer checks the rcode or address, the TTL and the extended error of an answer for A.
func expectAnswer(t *testing.T, s *testServer, name, want string) {
	t.Helper()
	m := exchangeDirect(t, s.Server, parseQuery(name+" A", true))
	got := addresses(m)
	if len(m.Answer) > 0 {
		got += fmt.Sprintf(" TTL %d", m.Answer[0].Header().Ttl)
	}
	if code := extendedCode(m); code >= 0 {
		got += fmt.Sprintf(" EDE %d", code)
	}
	if got != want {
		t.Errorf("%s after %v: got %s, want %s", name, time.Now().Format("04:05"), got, want)
	}
	synctest.Wait()
}

// TestForward_OutageEnds: a name whose renewal failed while no server replied is renewed as
// soon as another name was answered. A TTL of 5 is never given with more.
func TestForward_OutageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newTTLUpstream()
		s := newTestServer(t, "loaded", Config{Upstream: up.exchange})
		expectAnswer(t, s, "a.example.", "192.0.2.1 TTL 5")
		time.Sleep(6 * time.Second)
		up.rcodes["a.example."], up.rcodes["b.example."] = -1, -1
		expectAnswer(t, s, "a.example.", "192.0.2.1 TTL 5 EDE 3")
		expectAnswer(t, s, "b.example.", "SERVFAIL EDE 23")
		clear(up.rcodes)
		time.Sleep(time.Second)
		expectAnswer(t, s, "a.example.", "192.0.2.1 TTL 5 EDE 3") // no server has replied yet
		expectAnswer(t, s, "c.example.", "192.0.2.1 TTL 5")
		expectAnswer(t, s, "a.example.", "192.0.2.3 TTL 5")
	})
}

// TestForward_DeadName: a name that fails while others are answered is renewed every 30
// seconds.
func TestForward_DeadName(t *testing.T) {
	for _, rcode := range []int{-1, dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeFormatError, dns.RcodeNotImplemented} {
		synctest.Test(t, func(t *testing.T) {
			up := newTTLUpstream()
			s := newTestServer(t, "loaded", Config{Upstream: up.exchange})
			expectAnswer(t, s, "dead.example.", "192.0.2.1 TTL 5")
			time.Sleep(6 * time.Second)
			up.rcodes["dead.example."] = rcode
			for i := range 30 {
				expectAnswer(t, s, fmt.Sprintf("n%d.example.", i), "192.0.2.1 TTL 5")
				expectAnswer(t, s, "dead.example.", "192.0.2.1 TTL 5 EDE 3")
				time.Sleep(time.Second)
			}
			if n := up.queries["dead.example."]; n != 2 {
				t.Errorf("rcode %d: %d queries, want 2", rcode, n)
			}
			expectAnswer(t, s, "dead.example.", "192.0.2.1 TTL 5 EDE 3")
			if n := up.queries["dead.example."]; n != 3 {
				t.Errorf("rcode %d, after 30 seconds: %d queries, want 3", rcode, n)
			}
		})
	}
}

// TestForward_FailureCached: an rcode other than NOERROR and NXDOMAIN is cached for 5 seconds.
func TestForward_FailureCached(t *testing.T) {
	for rcode, cached := range map[int]string{
		dns.RcodeServerFailure: "SERVFAIL EDE 13", dns.RcodeRefused: "REFUSED",
		dns.RcodeNotImplemented: "NOTIMP", dns.RcodeFormatError: "FORMERR",
	} {
		synctest.Test(t, func(t *testing.T) {
			up := newTTLUpstream()
			s := newTestServer(t, "loaded", Config{Upstream: up.exchange})
			up.rcodes["a.example."] = rcode
			expectAnswer(t, s, "a.example.", dns.RcodeToString[rcode])
			clear(up.rcodes)
			time.Sleep(5*time.Second - time.Nanosecond)
			expectAnswer(t, s, "a.example.", cached)
			time.Sleep(time.Nanosecond)
			expectAnswer(t, s, "a.example.", "192.0.2.2 TTL 5")
		})
	}
}

// TestForward_ClusterRetry: on a node cache a stale name of the cluster is renewed 2 seconds
// after a failure, any other name after 30.
func TestForward_ClusterRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newTTLUpstream()
		s := newCachingServer(t, Config{Upstream: up.exchange, Stubs: []Stub{{Zone: clusterDomain, Exchange: up.exchange}}})
		names := []string{"db-0.db.shop.svc.cluster.local.", "www.example."}
		for _, name := range names {
			expectAnswer(t, s, name, "192.0.2.1 TTL 5")
		}
		time.Sleep(6 * time.Second)
		for _, name := range names {
			up.rcodes[name] = -1
			expectAnswer(t, s, name, "192.0.2.1 TTL 5 EDE 3")
		}
		clear(up.rcodes)
		time.Sleep(clusterRetryInterval - time.Nanosecond)
		expectAnswer(t, s, names[0], "192.0.2.1 TTL 5 EDE 3")
		time.Sleep(time.Nanosecond)
		expectAnswer(t, s, names[0], "192.0.2.3 TTL 5")
		expectAnswer(t, s, names[1], "192.0.2.1 TTL 5 EDE 3")
	})
}

// TestSetForwarding_ReplyInFlight: the reply of a server that was replaced meanwhile is not
// cached.
func TestSetForwarding_ReplyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, current := newTTLUpstream(), newTTLUpstream()
		release := make(chan struct{})
		s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			<-release
			return old.exchange(ctx, q)
		}})
		go exchangeDirect(t, s.Server, parseQuery("a.example. A", true))
		synctest.Wait()
		s.SetForwarding(Forwarding{Upstream: current.exchange})
		s.SetHostSuffixes(nil) // keeps the generation
		close(release)
		synctest.Wait()
		if n := s.cache.Stats().Entries; n != 0 || old.queries["a.example."] != 1 {
			t.Errorf("%d replies of the previous servers are cached", n)
		}
		for range 2 {
			expectAnswer(t, s, "a.example.", "192.0.2.1 TTL 5")
		}
		if n := current.queries["a.example."]; n != 1 {
			t.Errorf("%d queries, want 1: replies of the new servers are cached", n)
		}
	})
}

// TestForward_Iterative: a query without RD is answered from the zone or a fresh entry of the
// cache, or refused. It leaves no trace in the cache.
func TestForward_Iterative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{}
		s := newTestServer(t, "namespace default\nservice default/web 10.96.0.7\n"+
			"service default/ext external=db.example\nloaded", Config{Upstream: up.exchange})
		ask := func(rd bool, name string) string {
			m := newQuery(name, dns.TypeA)
			m.RecursionDesired = rd
			reply := exchangeDirect(t, s.Server, m)
			synctest.Wait()
			text := addresses(reply)
			if code := extendedCode(reply); code >= 0 {
				text += " " + dns.ExtendedErrorCodeToString[uint16(code)]
			}
			return fmt.Sprintf("%s, %d upstream, %d cached", text, up.queries.Load(), s.cache.Stats().Entries)
		}
		expect := func(rd bool, name, want string) {
			t.Helper()
			if got := ask(rd, name); got != want {
				t.Errorf("%s, RD %t: got %s, want %s", name, rd, got, want)
			}
		}
		const refused = "REFUSED Not Authoritative"
		expect(false, "web.default.svc.cluster.local.", "10.96.0.7, 0 upstream, 0 cached")
		expect(false, "ext.default.svc.cluster.local.", "NOERROR, 0 upstream, 0 cached") // the CNAME alone
		expect(false, "www.example.", refused+", 0 upstream, 0 cached")
		for range 4 {
			expect(true, "www.example.", "192.0.2.1, 1 upstream, 1 cached")
		}
		expect(false, "www.example.", "192.0.2.1, 1 upstream, 1 cached")
		time.Sleep(95 * time.Second)
		expect(false, "www.example.", "192.0.2.1, 1 upstream, 1 cached") // expiring: RD=0 does not prefetch it
		expect(true, "www.example.", "192.0.2.1, 2 upstream, 1 cached")  // and does not keep others from it
		time.Sleep(101 * time.Second)
		up.err = errUnreachable
		expect(false, "www.example.", refused+", 2 upstream, 1 cached") // stale
		up.err = nil
		expect(true, "www.example.", "192.0.2.3, 3 upstream, 1 cached")
		if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=recursion"); n != 3 {
			t.Errorf("%d refusals were counted, want 3", n)
		}
	})
}

// TestForward_IterativeOnNode: a node cache forwards a query without RD for a name of the
// cluster, and no other. A failure is not cached.
func TestForward_IterativeOnNode(t *testing.T) {
	var cluster, other stubUpstream
	s := newNode(t, cluster.exchange, other.exchange)
	ask := func(rd bool, name string) string {
		m := newQuery(name, dns.TypeA)
		m.RecursionDesired = rd
		return addresses(exchangeDirect(t, s.Server, m))
	}
	for _, name := range []string{"www.example.", "1.0.0.10.in-addr.arpa.", autopathName("www", "default")} {
		if got := ask(false, name); got != "REFUSED" || other.queries.Load() != 0 {
			t.Errorf("%s: got %s after %d queries", name, got, other.queries.Load())
		}
	}
	const name = "web.default.svc.cluster.local."
	cluster.err = errUnreachable
	for _, want := range []string{"SERVFAIL", "192.0.2.2", "192.0.2.3"} {
		if got := ask(false, name); got != want || s.cache.Stats().Entries != 0 {
			t.Errorf("without RD: got %s and %d cached replies, want %s and none", got, s.cache.Stats().Entries, want)
		}
		cluster.err = nil
	}
	for _, rd := range []bool{true, false} {
		if got := ask(rd, name); got != "192.0.2.4" {
			t.Errorf("RD %t: got %s, want the cached 192.0.2.4", rd, got)
		}
	}
}
