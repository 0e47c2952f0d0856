// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestForward_CacheStates takes an answer through all states of its cache entry, in fake time.
func TestForward_CacheStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{}
		s := newTestServer(t, "loaded", Config{Upstream: up.exchange})
		begin := time.Now()
		sleepUntil := func(seconds int) { time.Sleep(time.Until(begin.Add(time.Duration(seconds) * time.Second))) }
		expect := func(state, want string, queries int) {
			t.Helper()
			reply := exchangeDirect(t, s.Server, parseQuery("www.Example. A", true))
			got := dns.RcodeToString[reply.Rcode]
			if len(reply.Answer) > 0 {
				a := reply.Answer[0].(*dns.A)
				got = fmt.Sprintf("%s %d %s", a.Hdr.Name, a.Hdr.Ttl, a.A)
			}
			for _, e := range extendedErrorsOf(reply) {
				got += " " + dns.ExtendedErrorCodeToString[e.InfoCode]
			}
			synctest.Wait()
			if got != want || int(up.queries.Load()) != queries {
				t.Errorf("%s: got %s after %d queries to upstream, want %s after %d", state, got, up.queries.Load(), want, queries)
			}
		}
		expect("not cached", "www.Example. 100 192.0.2.1", 1)
		sleepUntil(10)
		expect("fresh", "www.Example. 90 192.0.2.1", 1)
		expect("used again", "www.Example. 90 192.0.2.1", 1)
		sleepUntil(89)
		expect("before the last tenth", "www.Example. 11 192.0.2.1", 1)

		up.blocked = make(chan struct{})
		sleepUntil(91)
		expect("expiring, prefetched", "www.Example. 9 192.0.2.1", 2)
		for range 100 {
			expect("one prefetch for all clients", "www.Example. 9 192.0.2.1", 2)
		}
		close(up.blocked)
		synctest.Wait()
		expect("prefetched", "www.Example. 100 192.0.2.2", 2)
		up.blocked = nil

		up.err = errors.New("connection refused")
		sleepUntil(192)
		expect("stale, upstream fails", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		expect("failing, upstream not queried again", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		sleepUntil(221)
		expect("failing for 30 seconds", "www.Example. 30 192.0.2.2 Stale Answer", 3)
		sleepUntil(222)
		expect("stale again", "www.Example. 30 192.0.2.2 Stale Answer", 4)

		up.err, up.blocked = nil, make(chan struct{})
		sleepUntil(260)
		expect("stale, upstream does not reply", "www.Example. 30 192.0.2.2 Stale Answer", 5)
		if waited := time.Since(begin.Add(260 * time.Second)); waited != staleDelay {
			t.Errorf("the client waited for %v, want %v", waited, staleDelay)
		}
		close(up.blocked)
		synctest.Wait()
		expect("the late reply is cached", "www.Example. 100 192.0.2.5", 5)
		up.blocked = nil

		up.err = errors.New("connection refused")
		sleepUntil(263 + 100 + 3600)
		expect("past the limit of stale answers", "SERVFAIL Network Error", 6)
		expect("the failure is cached", "SERVFAIL Network Error Cached Error", 6)
		up.err = nil
		sleepUntil(263 + 100 + 3600 + 4)
		expect("just before 5 seconds", "SERVFAIL Network Error Cached Error", 6)
		sleepUntil(263 + 100 + 3600 + 5)
		expect("after 5 seconds", "www.Example. 100 192.0.2.7", 7)
	})
}

// TestForward_StaleNXDOMAIN: a stale NXDOMAIN has its own extended error code (RFC 8914 section
// 4.20).
func TestForward_StaleNXDOMAIN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{rcode: dns.RcodeNameError}
		s := newTestServer(t, "namespace default\nservice default/gone external=none.example\nloaded", Config{Upstream: up.exchange})
		exchangeDirect(t, s.Server, parseQuery("none.example. A", true))
		time.Sleep(101 * time.Second)
		up.rcode = dns.RcodeServerFailure
		for _, name := range []string{"none.example. A", "gone.default.svc.cluster.local. A"} {
			reply := exchangeDirect(t, s.Server, parseQuery(name, true))
			if soa := reply.Ns[0].(*dns.SOA); reply.Rcode != dns.RcodeNameError || soa.Hdr.Ttl != 30 ||
				extendedCode(reply) != int(dns.ExtendedErrorCodeStaleNXDOMAINAnswer) {
				t.Errorf("%s: got %v, want a stale NXDOMAIN", name, reply)
			}
		}
	})
}

// TestForward_StubDomains: the longest stub domain that contains the name wins, compared label
// by label. Names of the cluster are never forwarded.
func TestForward_StubDomains(t *testing.T) {
	serverOf := func(addr string) Exchange {
		return func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return newReply(t, q, addr), nil }
	}
	stubs := []Stub{ // the longest match is neither the first nor the last
		{Zone: fqdn.Join(fqdn.Root, "corp", "example"), Exchange: serverOf("192.0.2.2")},
		{Zone: fqdn.Join(fqdn.Root, "de", "eu", "corp", "example"), Exchange: serverOf("192.0.2.5")},
		{Zone: fqdn.Join(fqdn.Root, "eu", "corp", "example"), Exchange: serverOf("192.0.2.3")},
		{Zone: fqdn.Join(fqdn.Root, "local"), Exchange: serverOf("192.0.2.4")},
	}
	s := startServer(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\n"+
		"service default/ext external=db.eu.corp.example\nloaded", Config{Upstream: serverOf("192.0.2.1"), Stubs: stubs})
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for name, want := range map[string]string{
			"www.example.":                   "192.0.2.1",
			"example.":                       "192.0.2.1",
			"corp.example.":                  "192.0.2.2",
			"DB.Corp.Example.":               "192.0.2.2",
			"notcorp.example.":               "192.0.2.1",
			"eu.corp.example.":               "192.0.2.3",
			"a.b.eu.corp.example.":           "192.0.2.3",
			"noteu.corp.example.":            "192.0.2.2",
			"x.de.eu.corp.example.":          "192.0.2.5",
			"printer.local.":                 "192.0.2.4",
			"web.default.svc.cluster.local.": "10.96.0.7",
			"ext.default.svc.cluster.local.": "192.0.2.3",
		} {
			reply := exchange(name + " A")
			if n := len(reply.Answer); n == 0 || reply.Answer[n-1].(*dns.A).A.String() != want {
				t.Errorf("%s: got %s, want %s", name, replyText(reply), want)
			}
		}
		if reply := exchange("none.default.svc.cluster.local. A"); reply.Rcode != dns.RcodeNameError {
			t.Errorf("missing name of the cluster, below a stub domain: got %s, want NXDOMAIN", replyText(reply))
		}
	})
}

// TestForward_OwnerCase: the owner has the case of the client's question (RFC 4343), also in a
// cached answer. Other names have the case of the upstream server's reply.
func TestForward_OwnerCase(t *testing.T) {
	records := parseRecords(t, "www.example. 60 IN CNAME Target.Example.\nTarget.Example. 60 IN A 192.0.2.1")
	queries := atomic.Int32{}
	s := startServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		queries.Add(1)
		return records.exchange(ctx, q)
	}})
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for _, name := range []string{"WwW.eXaMpLe.", "www.example.", "WWW.EXAMPLE."} {
			want := "NOERROR\n" + name + " 60 IN CNAME Target.Example.\nTarget.Example. 60 IN A 192.0.2.1\n"
			if got := replyText(exchange(name + " A")); got != want && got != strings.ReplaceAll(want, " 60 ", " 59 ") {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		for _, name := range []string{"WEB.default.svc.cluster.LOCAL.", "Web.Default.Svc.Cluster.Local."} {
			if got, want := replyText(exchange(name+" A")), "NOERROR aa\n"+name+" 5 IN A 10.96.0.7\n"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	if n := queries.Load(); n != 1 {
		t.Errorf("upstream received %d queries, want 1", n)
	}
}

// TestForward_LongReason: the reason of a failure is cut so that the reply fits.
func TestForward_LongReason(t *testing.T) {
	up := &stubUpstream{err: errors.New(strings.Repeat("é", 40_000))}
	s := startServer(t, "loaded", Config{Upstream: up.exchange})
	longName := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61) + "."
	q := new(dns.Msg).SetQuestion(longName, dns.TypeA).SetEdns0(minUDP, true)
	for _, network := range []string{"udp", "tcp"} {
		s.cache.Clear()
		reply := s.exchange(t, network, q)
		if reply.Rcode != dns.RcodeServerFailure || reply.Truncated ||
			extendedCode(reply) != int(dns.ExtendedErrorCodeNetworkError) || reply.Len() > minUDP {
			t.Errorf("over %s: got %d octets, want at most %d: %s", network, reply.Len(), minUDP, reply)
		}
	}
}

// TestForward_PanicInPrefetch: a panic while an answer is prefetched is counted, and the
// prefetch is tried again.
func TestForward_PanicInPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &stubUpstream{}
		s := newTestServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if up.err != nil {
				panic(up.err)
			}
			return up.exchange(ctx, q)
		}})
		expect := func(want string) {
			t.Helper()
			if got := addresses(exchangeDirect(t, s.Server, parseQuery("www.example. A", false))); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			synctest.Wait()
		}
		for range 4 {
			expect("192.0.2.1")
		}
		up.err = errors.New("fault")
		time.Sleep(95 * time.Second)
		expect("192.0.2.1") // expiring
		time.Sleep(10 * time.Second)
		expect("192.0.2.1") // stale, after staleDelay
		if got := s.counterSum(t, "dnsconfigurer_dns_panics_total"); got != 2 {
			t.Errorf("got %d panics, want 2", got)
		}
		up.err = nil
		expect("192.0.2.2")
	})
}

// TestForward_ExtendedRcode: an rcode of more than four bits is about the OPT record of this server. A
// client without EDNS would read NOERROR.
func TestForward_ExtendedRcode(t *testing.T) {
	s := newServer(t, smallCluster, Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		return new(dns.Msg).SetRcode(q, dns.RcodeBadVers).SetEdns0(1232, false), nil
	}})
	for _, from := range []string{"upstream", "cache"} {
		if m := exchangeDirect(t, s, parseQuery("www.example. A", false)); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %s", from, dns.RcodeToString[m.Rcode])
		}
	}
}

// TestForward_RefusedExpansion: a refusal that the expansion of a search list has counted is not counted
// again.
func TestForward_RefusedExpansion(t *testing.T) {
	s := newTestServer(t, smallCluster, Config{})
	q := &query{client: podAddr, received: time.Now()}
	if !q.parse(mustPack(t, parseQuery("www.example. A", true))) {
		t.Fatal("not a query")
	}
	refuse := func(context.Context, *dns.Msg) (*dns.Msg, error) { return nil, refusedLimit }
	to := destination{forwarding: new(Forwarding), exchange: refuse}
	if a := s.ask(t.Context(), q, to); a.refused != refusedLimit || a.rcode != dns.RcodeServerFailure {
		t.Errorf("%+v", a)
	}
	for kind, counts := range s.metrics.refusals {
		if n := testutil.ToFloat64(counts[refusedLimit]); n > 0 {
			t.Errorf("%v: counted %v times", queryKind(kind), n)
		}
	}
}

// TestForward_NoData: NODATA for one address family is the answer at once, whatever the upstream servers
// do with the other family: a client may query only one. Later queries are answered from the cache.
func TestForward_NoData(t *testing.T) {
	dropped := func(context.Context, *dns.Msg) (*dns.Msg, error) {
		time.Sleep(4 * time.Second)
		return nil, errUnreachable
	}
	fails := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure), nil
	}
	const soa = "example. 300 IN SOA ns.example. admin.example. 1 2 3 4 300"
	for name, tt := range map[string]struct {
		qtype uint16
		soa   string
		other Exchange // for the other address family
	}{
		"A, AAAA dropped":           {dns.TypeA, soa, dropped},
		"A, AAAA SERVFAIL":          {dns.TypeA, soa, fails},
		"AAAA, A dropped":           {dns.TypeAAAA, soa, dropped},
		"A without SOA, AAAA fails": {dns.TypeA, "", fails},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var queries atomic.Int32
				s := newServer(t, smallCluster, Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
					queries.Add(1)
					if q.Question[0].Qtype != tt.qtype {
						return tt.other(ctx, q)
					}
					m := new(dns.Msg).SetReply(q)
					if tt.soa != "" {
						m.Ns = parseRecords(t, tt.soa)
					}
					return m, nil
				}})
				begin := time.Now()
				for range 3 {
					m := exchangeDirect(t, s, newQuery("www.example.", tt.qtype))
					if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 0 || len(m.Ns) != len(parseRecords(t, tt.soa)) {
						t.Errorf("got %v, want NODATA", m)
					}
				}
				if took := time.Since(begin); took != 0 || queries.Load() != 1 {
					t.Errorf("%d upstream queries and %v for three queries, want 1 at once", queries.Load(), took)
				}
			})
		})
	}
}

// TestSetForwarding replaces the servers while a query is in flight. That query gets the reply,
// or the failure, of the server that it was sent to, and the next query is sent to the new
// server. The cache keeps no reply of a replaced server.
func TestSetForwarding(t *testing.T) {
	received, release := make(chan bool), make(chan bool)
	blocking := func(exchange Exchange) Exchange {
		return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			received <- true
			<-release
			return exchange(ctx, q)
		}
	}
	serverOf := func(addr string) Exchange { return parseRecords(t, "a.example. 60 IN A "+addr).exchange }

	s := startServer(t, "loaded", Config{Upstream: blocking(serverOf("192.0.2.1"))})
	lookup := func() string {
		return addresses(s.exchange(t, "udp", new(dns.Msg).SetQuestion("a.example.", dns.TypeA)))
	}
	lookupDuring := func(f Forwarding) string {
		got := make(chan string)
		go func() {
			defer close(got)
			got <- lookup()
		}()
		<-received
		s.SetForwarding(f)
		release <- true
		return <-got
	}
	for i, step := range []struct{ got, want string }{
		{lookupDuring(Forwarding{Upstream: blocking(unreachable)}), "192.0.2.1"},
		{lookupDuring(Forwarding{Upstream: serverOf("192.0.2.2")}), "SERVFAIL"},
		{lookup(), "192.0.2.2"},
	} {
		if step.got != step.want {
			t.Errorf("step %d: got %s, want %s", i, step.got, step.want)
		}
	}
	s.SetForwarding(Forwarding{Upstream: serverOf("192.0.2.3")})
	if got := lookup(); got != "192.0.2.3" {
		t.Errorf("after SetForwarding: got %s, want 192.0.2.3", got)
	}
	s.SetForwarding(Forwarding{})
	if got := lookup(); got != "REFUSED" {
		t.Errorf("without servers: got %s, want REFUSED", got)
	}
}
