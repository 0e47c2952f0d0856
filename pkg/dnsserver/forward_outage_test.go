// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

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
