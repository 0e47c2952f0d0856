// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
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

// TestSetForwarding_ReplyInFlight: the reply of a server that was replaced meanwhile is not
// cached, those of the new one are.
func TestSetForwarding_ReplyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old, current stubUpstream
		old.blocked = make(chan struct{})
		s := newTestServer(t, "loaded", Config{Upstream: old.exchange})
		go exchangeDirect(t, s.Server, parseQuery("a.example. A", true))
		synctest.Wait()
		s.SetForwarding(Forwarding{Upstream: current.exchange})
		s.SetHostSuffixes(nil) // keeps the generation
		close(old.blocked)
		synctest.Wait()
		if n := s.cache.Stats().Entries; n != 0 || old.queries.Load() != 1 {
			t.Errorf("%d replies of the previous servers are cached", n)
		}
		for range 2 {
			exchangeDirect(t, s.Server, parseQuery("a.example. A", true))
		}
		if n := current.queries.Load(); n != 1 {
			t.Errorf("%d queries, want 1: replies of the new servers are cached", n)
		}
	})
}
