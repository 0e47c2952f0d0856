// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestWalk_TTL: no TTL of an expansion is longer than the negative TTL of a candidate before the
// one found. The records of upstream servers are shared and do not change.
func TestWalk_TTL(t *testing.T) {
	synctest.Test(t, testWalkTTL) // TTLs do not age in fake time
}

func testWalkTTL(t *testing.T) {
	upstream := func(soaTimes string) Exchange {
		records := parseRecords(t, "web.b.example. 300 IN A 192.0.2.1\nempty.a.example. 300 IN TXT x")
		return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			m, err := records.exchange(ctx, q)
			m.Ns = nil
			if len(m.Answer) == 0 && soaTimes != "" {
				soa, err := dns.NewRR(". " + soaTimes)
				if err != nil {
					t.Fatal(err)
				}
				m.Ns = []dns.RR{soa}
			}
			return m, err
		}
	}
	tests := []struct {
		title, name, soaTimes string
		want                  uint32
	}{
		{"name of the cluster", "kubernetes", "60 IN SOA . . 1 2 3 4 60", 30},
		{"negative TTL above that of the cluster", "web", "60 IN SOA . . 1 2 3 4 60", 30},
		{"minimum of the SOA record", "web", "60 IN SOA . . 1 2 3 4 7", 7},
		{"TTL of the SOA record below its minimum", "web", "6 IN SOA . . 1 2 3 4 60", 6},
		{"no SOA record", "web", "", 0},
		{"NXDOMAIN", "absent", "60 IN SOA . . 1 2 3 4 7", 7},
		{"NODATA", "empty", "60 IN SOA . . 1 2 3 4 7", 7},
		{"NXDOMAIN without SOA record", "absent", "", 0},
	}
	for _, tt := range tests {
		for _, byName := range []bool{true, false} {
			s := newServer(t, "service shop/kubernetes 10.96.0.1\nloaded", Config{
				Upstream: upstream(tt.soaTimes),
				Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "a.example"), mustName(t, "b.example")}},
			})
			s.cfg.TTL = 30
			q := newQuery(tt.name+".", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local,a.example,b.example")
			if byName {
				q = newQuery(autopathName(tt.name, "shop"), dns.TypeA)
			}
			for _, when := range []string{"queried", "cached"} {
				m := exchangeDirect(t, s, q)
				ttl := uint32(noLimit)
				for _, rr := range append(m.Answer, m.Ns...) {
					ttl = min(ttl, rr.Header().Ttl)
				}
				noSOA := tt.soaTimes == "" && !byName && len(m.Answer) == 0 // upstream sent no SOA record to pass on
				if ttl != tt.want && !noSOA {
					t.Errorf("%s, by name %t, %s: got the TTL %d, want %d\n%v", tt.title, byName, when, ttl, tt.want, m)
				}
				s.running.Wait()
			}
		}
	}
}

// TestLookup_AddressFamilies: a candidate with an address of one family is found for queries for
// both, also while the query for the other family fails.
func TestLookup_AddressFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := parseRecords(t, "web.a.example. 300 IN A 192.0.2.1\nweb.b.example. 300 IN AAAA 2001:db8::1")
		aaaa := "" // the reply to AAAA in a.example
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			m, err := records.exchange(ctx, q)
			if q.Question[0].Name == "web.a.example." && q.Question[0].Qtype == dns.TypeAAAA {
				switch aaaa {
				case "error":
					return nil, errUnreachable
				case "refused":
					m.Rcode = dns.RcodeRefused
				case "nxdomain":
					m.Rcode = dns.RcodeNameError
				case "timeout":
					time.Sleep(5 * time.Second)
					return nil, errUnreachable
				}
			}
			return m, err
		}
		for _, tt := range []struct {
			aaaa  string
			rcode int
			took  time.Duration
		}{{"nodata", dns.RcodeSuccess, 0}, {"nxdomain", dns.RcodeSuccess, 0},
			{"error", dns.RcodeServerFailure, 0}, {"refused", dns.RcodeServerFailure, 0},
			{"timeout", dns.RcodeServerFailure, WalkTimeout}} {
			aaaa = tt.aaaa
			for _, order := range [][]uint16{{dns.TypeA, dns.TypeAAAA}, {dns.TypeAAAA, dns.TypeA}} {
				s := newServer(t, "loaded",
					Config{Upstream: upstream,
						Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "a.example"), mustName(t, "b.example")}}})
				for _, qtype := range order {
					begin := time.Now()
					m := exchangeDirect(t, s, newQuery(autopathName("web", "shop"), qtype))
					took := time.Since(begin)
					switch {
					case qtype == dns.TypeA:
						if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 2 || took != 0 {
							t.Errorf("AAAA %s: A: got %v after %v, want two records at once", aaaa, m, took)
						}
					case m.Rcode != tt.rcode || took != tt.took:
						t.Errorf("AAAA %s: AAAA: got %v after %v, want %s after %v", aaaa, m, took, dns.RcodeToString[tt.rcode], tt.took)
					case m.Rcode == dns.RcodeSuccess && (len(m.Answer) != 1 || m.Answer[0].(*dns.CNAME).Target != "web.a.example."):
						t.Errorf("AAAA %s: AAAA: got %v, want the alias to web.a.example.", aaaa, m)
					}
				}
				s.running.Wait()
			}
		}
	})
}

// TestWalk_SlowSuffix: a walk waits no longer than WalkTimeout. Its queries continue, so that the
// next query gets the answer from the cache.
func TestWalk_SlowSuffix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := parseRecords(t, "web.slow.example. 300 IN A 192.0.2.1\nweb.lab.example. 300 IN A 192.0.2.2")
		var queries atomic.Int32
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			queries.Add(1)
			if strings.HasSuffix(q.Question[0].Name, "slow.example.") {
				time.Sleep(4500 * time.Millisecond)
			}
			return records.exchange(ctx, q)
		}
		s := newServer(t, "loaded",
			Config{Upstream: upstream,
				Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "slow.example"), mustName(t, "lab.example")}}})
		expect := func(want string, ttl uint32, took time.Duration) {
			t.Helper()
			begin := time.Now()
			m := exchangeDirect(t, s, newQuery(autopathName("web", "shop"), dns.TypeA))
			if len(m.Answer) != 2 || m.Answer[0].(*dns.CNAME).Target != want ||
				m.Answer[0].Header().Ttl != ttl || time.Since(begin) != took {
				t.Errorf("got %v after %v, want %s with the TTL %d after %v", m, time.Since(begin), want, ttl, took)
			}
		}
		expect("web.lab.example.", 0, WalkTimeout)
		time.Sleep(time.Second) // glibc waits five seconds
		before := queries.Load()
		expect("web.slow.example.", 5, 0)
		if after := queries.Load(); after != before || before != 3 { // two host suffixes and the bare name
			t.Errorf("got %d queries to upstream, then %d more, want 3, then none", before, after-before)
		}
		s.running.Wait()
	})
}

// TestWalk_ExtendedErrors: each SERVFAIL has its reason as extended error (RFC 8914).
func TestWalk_ExtendedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			time.Sleep(5 * time.Second)
			return nil, errUnreachable
		}
		const most = DefaultMaxQueries - 3*DefaultMaxQueries/32 // without the reserves of other kinds
		tests := []struct {
			cluster  string
			upstream Exchange
			inFlight int
			code     uint16
			text     string
		}{
			{"namespace shop", unreachable, 0, dns.ExtendedErrorCodeNotReady, "the cluster's names are not loaded yet"},
			{"loaded", unreachable, 0, dns.ExtendedErrorCodeNetworkError, "no upstream server answered"},
			{"loaded", slow, 0, dns.ExtendedErrorCodeNoReachableAuthority, "timeout while expanding the search list"},
			{"loaded", nil, 0, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured"},
			{"loaded", unreachable, most - 1, extendedLimit, "too many queries are waiting for other servers"},
			{"service shop/web external=a.example\nloaded", unreachable, 0,
				dns.ExtendedErrorCodeNoReachableAuthority, "resolving the target of the ExternalName Service failed"},
		}
		for _, tt := range tests {
			s := newServer(t, tt.cluster, Config{Upstream: tt.upstream})
			takeSlots(s.queries, tt.inFlight)
			m := exchangeDirect(t, s, newQuery(autopathName("web", "shop"), dns.TypeA))
			ede, ok := m.IsEdns0().Option[0].(*dns.EDNS0_EDE)
			if m.Rcode != dns.RcodeServerFailure || !ok || ede.InfoCode != tt.code || ede.ExtraText != tt.text {
				t.Errorf("%s: got %v, want SERVFAIL with this extended error", tt.text, m)
			}
			s.running.Wait()
		}
	})
}

// TestWalk_HeaderFlags: queries of a walk have DO and CD as the client's query. The reply never has
// AD, although all its parts may be authentic.
func TestWalk_HeaderFlags(t *testing.T) {
	records := parseRecords(t, "www.example.net. 300 IN A 192.0.2.1")
	for bits := range 4 {
		do, cd := bits&1 != 0, bits&2 != 0
		upstream := func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			if q.IsEdns0().Do() != do || q.CheckingDisabled != cd {
				t.Errorf("client with DO %t and CD %t: upstream got %v", do, cd, q)
			}
			m, err := records.exchange(ctx, q)
			m.AuthenticatedData = true
			return m, err
		}
		s := newServer(t, "loaded", Config{Upstream: upstream})
		for _, q := range []*dns.Msg{newQuery(autopathName("www.example.net", "shop"), dns.TypeA),
			newQuery("www.example.net.", dns.TypeA, "example")} {
			q.CheckingDisabled, q.AuthenticatedData = cd, true
			if do {
				q.IsEdns0().SetDo()
			}
			m := exchangeDirect(t, s, q)
			if m.AuthenticatedData || m.CheckingDisabled != cd || m.IsEdns0().Do() != do || m.Rcode != dns.RcodeSuccess {
				t.Errorf("client with DO %t and CD %t: got %v, want the same flags and no AD", do, cd, m)
			}
		}
	}
}

// takeSlots takes n slots for search lists of n clients.
func takeSlots(l *limiter, n int) (slots []*slot) {
	for i := range n {
		slots = append(slots, l.admit(clientAddr(i), kindSearch, time.Now()))
	}
	return slots
}

// TestWalk_Limit: the number of queries that walks send at the same time is limited. A walk above
// the limit fails at once with SERVFAIL, which is not cached, and the next walk below it succeeds.
func TestWalk_Limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, "loaded", Config{Upstream: parseRecords(t, "web.corp.example. 300 IN A 192.0.2.1").exchange,
			Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}}})
		const limit = DefaultMaxQueries - 3*DefaultMaxQueries/32 // without the reserves of other kinds
		for _, tt := range []struct {
			inFlight, cached int
			rcode            int
		}{{limit, 0, dns.RcodeServerFailure}, {limit - 1, 0, dns.RcodeServerFailure}, {limit - 100, 2, dns.RcodeSuccess}} {
			s.SetForwarding(*s.forwarding.Load()) // clears the cache
			slots := takeSlots(s.queries, tt.inFlight)
			if m := exchangeDirect(t, s.Server, newQuery(autopathName("web", "shop"), dns.TypeA)); m.Rcode != tt.rcode {
				t.Errorf("with %d queries in flight: got %v, want %s", tt.inFlight, m, dns.RcodeToString[tt.rcode])
			}
			s.running.Wait()
			if got := s.queries.inUse(); got != tt.inFlight || s.cache.Stats().Entries != tt.cached {
				t.Errorf("after the walk %d queries are in flight, %d answers cached, want %d and %d",
					got, s.cache.Stats().Entries, tt.inFlight, tt.cached)
			}
			releaseAll(slots...)
		}
		s.expectFree(t)
	})
}

// TestWalk_Metrics checks how many candidates walks try, and how many queries they send.
func TestWalk_Metrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := newServer(t, "namespace shop\nservice shop/web 10.96.0.7\nloaded",
		Config{Register: registry, Upstream: parseRecords(t, "a.example. 300 IN A 192.0.2.1").exchange,
			Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "example")}}})
	for _, name := range []string{"web", "a", "a", "shop", "absent"} {
		exchangeDirect(t, s, newQuery(autopathName(name, "shop"), dns.TypeA))
	}
	exchangeDirect(t, s, newQuery("web.", dns.TypeA, "svc.cluster.local,shop.svc.cluster.local"))
	exchangeVia(t, s, overUDP, netip.MustParseAddr("2001:db8::1"), newQuery("web.", dns.TypeA, "shop.svc.cluster.local"))
	// Candidates: 1 for web, 5 for a and 4 once it is cached, 5 each for shop and
	// absent, 2 for the option. Questions: A of a.example and of "a." at first, then the
	// same of shop and absent.
	const want = `
# HELP dnsconfigurer_dns_autopath_expansions_total Search lists expanded for a query, by the source of the list (name, option) and result (found, nodata, absent, failed).
# TYPE dnsconfigurer_dns_autopath_expansions_total counter
dnsconfigurer_dns_autopath_expansions_total{by="name",result="absent"} 1
dnsconfigurer_dns_autopath_expansions_total{by="name",result="failed"} 0
dnsconfigurer_dns_autopath_expansions_total{by="name",result="found"} 3
dnsconfigurer_dns_autopath_expansions_total{by="name",result="nodata"} 1
dnsconfigurer_dns_autopath_expansions_total{by="option",result="absent"} 0
dnsconfigurer_dns_autopath_expansions_total{by="option",result="failed"} 0
dnsconfigurer_dns_autopath_expansions_total{by="option",result="found"} 1
dnsconfigurer_dns_autopath_expansions_total{by="option",result="nodata"} 0
# HELP dnsconfigurer_dns_autopath_candidates Candidate names tried by an expansion.
# TYPE dnsconfigurer_dns_autopath_candidates histogram
dnsconfigurer_dns_autopath_candidates_bucket{le="1"} 1
dnsconfigurer_dns_autopath_candidates_bucket{le="2"} 2
dnsconfigurer_dns_autopath_candidates_bucket{le="3"} 2
dnsconfigurer_dns_autopath_candidates_bucket{le="4"} 3
dnsconfigurer_dns_autopath_candidates_bucket{le="5"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="6"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="8"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="16"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="33"} 6
dnsconfigurer_dns_autopath_candidates_bucket{le="+Inf"} 6
dnsconfigurer_dns_autopath_candidates_sum 22
dnsconfigurer_dns_autopath_candidates_count 6
# HELP dnsconfigurer_dns_autopath_questions Queries to other servers that an expansion needed.
# TYPE dnsconfigurer_dns_autopath_questions histogram
dnsconfigurer_dns_autopath_questions_bucket{le="0"} 3
dnsconfigurer_dns_autopath_questions_bucket{le="2"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="4"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="8"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="16"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="32"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="64"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="99"} 6
dnsconfigurer_dns_autopath_questions_bucket{le="+Inf"} 6
dnsconfigurer_dns_autopath_questions_sum 6
dnsconfigurer_dns_autopath_questions_count 6
# HELP dnsconfigurer_dns_autopath_ignored_total SearchPaths options that were ignored, by reason (source, malformed, length).
# TYPE dnsconfigurer_dns_autopath_ignored_total counter
dnsconfigurer_dns_autopath_ignored_total{reason="length"} 0
dnsconfigurer_dns_autopath_ignored_total{reason="malformed"} 0
dnsconfigurer_dns_autopath_ignored_total{reason="source"} 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dnsconfigurer_dns_autopath_expansions_total",
		"dnsconfigurer_dns_autopath_candidates", "dnsconfigurer_dns_autopath_questions", "dnsconfigurer_dns_autopath_ignored_total")
	if err != nil {
		t.Error(err)
	}
}
