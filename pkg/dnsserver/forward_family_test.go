// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// family is how other servers answer a query for one address family.
type family struct {
	rcode  int // negative: no reply
	record string
	delay  time.Duration
}

// families are the replies for A and AAAA.
type families map[uint16]family

const silent = -1

var (
	v4    = family{record: "www.example. 60 IN A 192.0.2.1"}
	v6    = family{record: "www.example. 60 IN AAAA 2001:db8::1"}
	alias = family{record: "www.example. 60 IN CNAME none.example."}
	empty = family{} // for 300 s
)

func (f families) exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	reply := f[q.Question[0].Qtype]
	time.Sleep(reply.delay)
	if reply.rcode == silent {
		return nil, errUnreachable
	}
	m := new(dns.Msg).SetRcode(q, reply.rcode)
	soa, err := dns.NewRR("example. 300 IN SOA ns.example. admin.example. 1 2 3 4 300")
	if err != nil {
		return nil, err
	}
	m.Ns = []dns.RR{soa}
	if reply.record != "" {
		rr, err := dns.NewRR(reply.record)
		if err != nil {
			return nil, err
		}
		m.Answer = []dns.RR{rr}
	}
	return m, nil
}

// expectFamilies sends the queries of a C library at once, and checks the types of the last
// records of both replies, or their rcodes.
func expectFamilies(t *testing.T, s *Server, a, aaaa string) {
	t.Helper()
	got := map[uint16]*string{dns.TypeA: new(string), dns.TypeAAAA: new(string)}
	var sent sync.WaitGroup
	for qtype, text := range got {
		sent.Go(func() {
			m := exchangeDirect(t, s, newQuery("www.example.", qtype))
			*text = dns.RcodeToString[m.Rcode]
			if n := len(m.Answer); n > 0 {
				*text = dns.TypeToString[m.Answer[n-1].Header().Rrtype]
			}
		})
	}
	sent.Wait()
	if *got[dns.TypeA] != a || *got[dns.TypeAAAA] != aaaa {
		t.Errorf("A: %s, AAAA: %s; want %s, %s", *got[dns.TypeA], *got[dns.TypeAAAA], a, aaaa)
	}
}

// TestForward_Families: a client never gets NODATA for one address family and a failure for the
// other, which denies the name to glibc.
func TestForward_Families(t *testing.T) {
	const servfail, nodata = "SERVFAIL", "NOERROR"
	for name, tt := range map[string]struct {
		A, AAAA         family
		wantA, wantAAAA string
	}{
		"IPv4 alone":                   {v4, empty, "A", nodata},
		"IPv6 alone":                   {empty, v6, nodata, "AAAA"},
		"no address":                   {empty, empty, nodata, nodata},
		"no reply to A":                {family{rcode: silent}, empty, servfail, servfail},
		"no reply to A for a while":    {family{rcode: silent, delay: 2 * time.Second}, empty, servfail, servfail},
		"A fails before AAAA":          {family{rcode: silent}, family{delay: 2 * time.Second}, servfail, servfail},
		"A fails":                      {family{rcode: dns.RcodeServerFailure}, empty, servfail, servfail},
		"A is refused":                 {family{rcode: dns.RcodeRefused}, empty, "REFUSED", servfail},
		"AAAA is an alias":             {family{rcode: silent}, alias, servfail, servfail},
		"no reply to AAAA":             {empty, family{rcode: silent}, servfail, servfail},
		"no reply to AAAA, IPv4 alone": {v4, family{rcode: silent}, "A", servfail},
		"A does not exist":             {family{rcode: dns.RcodeNameError}, empty, "NXDOMAIN", nodata},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, "loaded", Config{Upstream: families{dns.TypeA: tt.A, dns.TypeAAAA: tt.AAAA}.exchange})
				expectFamilies(t, s, tt.wantA, tt.wantAAAA)
			})
		})
	}
}

// TestForward_FamilyRefused: if the query for the other address family is refused, the reply says so. A
// node cache must not cache a refusal of the cluster DNS at a limit.
func TestForward_FamilyRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no descriptor": {upstream.ErrNoResources, fmt.Sprint(extendedLimit, " ", refusedResources.Error())},
		"a loop":        {upstream.ErrLoop, fmt.Sprint(dns.ExtendedErrorCodeNoReachableAuthority, " ", refusedLoop.Error())},
	} {
		s := newServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if q.Question[0].Qtype == dns.TypeA {
				return nil, tt.err
			}
			return families{dns.TypeAAAA: empty}.exchange(ctx, q)
		}})
		for _, from := range []string{"servers", "cache"} {
			m := exchangeDirect(t, s, parseQuery("www.example. AAAA", true))
			if m.Rcode != dns.RcodeServerFailure || extendedErrors(m) != tt.want {
				t.Errorf("%s, NODATA from the %s: got %v, want SERVFAIL with the extended error %s", name, from, m, tt.want)
			}
		}
	}
}

// TestForward_FamiliesCached: the same if NODATA is cached and the addresses are not, or not any
// more.
func TestForward_FamiliesCached(t *testing.T) {
	const servfail, nodata = "SERVFAIL", "NOERROR"
	for name, tt := range map[string]struct {
		A   family
		age time.Duration // of the cached replies
	}{
		"A with TTL 0":           {family{record: "www.example. 0 IN A 192.0.2.1"}, time.Minute},
		"A with TTL 0, stale":    {family{record: "www.example. 0 IN A 192.0.2.1"}, 10 * time.Minute},
		"no stale A after 1 h":   {v4, time.Hour + 2*time.Minute},
		"no stale answer at all": {v4, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers atomic.Pointer[families]
				servers.Store(&families{dns.TypeA: tt.A, dns.TypeAAAA: empty})
				s := newServer(t, "loaded", Config{Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
					return servers.Load().exchange(ctx, q)
				}})
				expectFamilies(t, s, "A", nodata)
				servers.Store(&families{dns.TypeA: {rcode: silent}, dns.TypeAAAA: {rcode: silent}})
				time.Sleep(tt.age)
				expectFamilies(t, s, servfail, servfail)
				servers.Store(&families{dns.TypeA: tt.A, dns.TypeAAAA: empty})
				time.Sleep(cache.FailureTTL)
				expectFamilies(t, s, "A", nodata)
			})
		})
	}
}

// TestNodeCache_Families: the cluster DNS ends between the two queries of a pod, for a name of the
// cluster and for a search list.
func TestNodeCache_Families(t *testing.T) {
	for _, name := range []string{"web.shop.svc.cluster.local.", autopathName("web", "shop")} {
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{})}
		forwarding := c.forwarding(t, nil)
		endsBefore := func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
			if m.Question[0].Qtype == dns.TypeA {
				c.down.Store(true)
			}
			return c.exchange(ctx, m)
		}
		forwarding.Expander = endsBefore
		for i := range forwarding.Stubs {
			forwarding.Stubs[i].Exchange = endsBefore
		}
		s := newNodeCache(t, forwarding)
		for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeA} {
			if m := exchangeDirect(t, s.Server, newQuery(name, qtype)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s %s: got %v, want SERVFAIL", name, dns.Type(qtype), m)
			}
		}
	}
}

// countByType counts the queries that servers get, by type.
type countByType struct {
	families
	mu      sync.Mutex
	queries map[uint16]int
}

func (c *countByType) exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	c.mu.Lock()
	if c.queries == nil {
		c.queries = map[uint16]int{}
	}
	c.queries[q.Question[0].Qtype]++
	c.mu.Unlock()
	return c.families.exchange(ctx, q)
}

func (c *countByType) count(qtype uint16) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queries[qtype]
}

// TestForward_FamiliesPrefetch: NODATA that is about to expire is prefetched, also if the other address
// family has to be looked up before the reply.
func TestForward_FamiliesPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := countByType{families: families{dns.TypeA: {record: "www.example. 0 IN A 192.0.2.1"}, dns.TypeAAAA: empty}}
		s := newServer(t, "loaded", Config{Upstream: servers.exchange})
		for range 4 {
			exchangeDirect(t, s, newQuery("www.example.", dns.TypeAAAA))
		}
		time.Sleep(285 * time.Second) // of 300
		exchangeDirect(t, s, newQuery("www.example.", dns.TypeAAAA))
		synctest.Wait()
		if n := servers.count(dns.TypeAAAA); n != 2 {
			t.Errorf("%d queries for AAAA, want 2", n)
		}
	})
}

// TestForward_FamiliesRetry: while no server replies, a name with stale NODATA is not looked up again
// for each query.
func TestForward_FamiliesRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := countByType{families: families{dns.TypeA: {record: "www.example. 0 IN A 192.0.2.1"}, dns.TypeAAAA: empty}}
		s := newServer(t, "loaded", Config{Upstream: servers.exchange})
		expectFamilies(t, s, "A", "NOERROR")
		servers.families = families{dns.TypeA: {rcode: silent}, dns.TypeAAAA: {rcode: silent}}
		time.Sleep(10 * time.Minute)
		for range 4 { // within the time for which a failure is cached
			if m := exchangeDirect(t, s, newQuery("www.example.", dns.TypeAAAA)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("got %v", m)
			}
			time.Sleep(time.Second)
		}
		if n := servers.count(dns.TypeAAAA); n != 2 {
			t.Errorf("%d queries for AAAA, want one before the outage and one in it", n)
		}
	})
}
