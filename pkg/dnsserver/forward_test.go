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
