// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestHandle_NeverBlocks: handle answers from the zone and the cache at once. For all other
// queries it returns a function that waits, and does not query a server itself. Either way a
// query is counted once.
func TestHandle_NeverBlocks(t *testing.T) {
	var forwarded atomic.Int32
	s := newTestServer(t, shopCluster+"\nservice shop/outside external=www.example", Config{
		Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}},
		Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			forwarded.Add(1)
			return nil, context.Canceled
		},
	})
	nxdomain := new(dns.Msg).SetRcode(newQuery("www.corp.example.", dns.TypeA), dns.RcodeNameError)
	nxdomain.Ns = []dns.RR{&dns.SOA{Hdr: header("corp.example.", dns.TypeSOA, 60),
		Ns: "ns.corp.example.", Mbox: "a.corp.example.", Minttl: 60}}
	for _, tt := range []struct {
		name    string
		query   *dns.Msg
		noWait  bool
		lookups int // in the cache
	}{
		{"a Service", newQuery("web.shop.svc.cluster.local.", dns.TypeSRV), true, 0},
		{"a Service that does not exist", newQuery("none.shop.svc.cluster.local.", dns.TypeMX), true, 0},
		{"a search list with a name of the zone, by name", newQuery(autopathName("web", "shop"), dns.TypeA), true, 0},
		{"the same list as option", newQuery("web.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), true, 0},
		{"a rejected query", newQuery("web.shop.svc.cluster.local.", dns.TypeAXFR), true, 0},
		{"a cached name", newQuery("www.corp.example.", dns.TypeA), true, 1},
		{"an upstream name", newQuery("www.example.", dns.TypeA), false, 1},
		{"an alias of an upstream name", newQuery("outside.shop.svc.cluster.local.", dns.TypeA), false, 1},
		{"a search list with an upstream name, by name", newQuery(autopathName("www.example", "shop"), dns.TypeA), false, 2},
		{"the same list as option",
			newQuery("www.example.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), false, 1},
		{"a search list with an alias", newQuery(autopathName("outside", "shop"), dns.TypeA), false, 1},
		{"a search list with a candidate that is cached as NXDOMAIN", newQuery(autopathName("www", "shop"), dns.TypeA), false, 2},
		{"a malformed search list", newQuery("other.example.", dns.TypeA, "a b"), false, 1},
	} {
		packet := mustPack(t, tt.query)
		current := cache.PutOptions{Generation: s.cache.Clear()}
		key, _ := cache.NewQuestion(nxdomain, nil)
		if _, cached := s.cache.Put(key, nxdomain, time.Now(), current); !cached {
			t.Fatal("the NXDOMAIN is not cached")
		}
		before, queries, lookups := forwarded.Load(), s.counterSum(t, "dnsconfigurer_dns_queries_total"),
			s.counterSum(t, "dnsconfigurer_dns_cache_lookups_total")
		q := &query{via: overUDP, client: podAddr, received: time.Now()}
		r, wait := s.handle(t.Context(), q, packet, nil)
		if (wait == nil) != tt.noWait || (r.wire != nil) != tt.noWait || forwarded.Load() != before {
			t.Errorf("%s: got the reply %x, wait function %t, query to upstream %t", tt.name, r.wire,
				wait != nil, forwarded.Load() != before)
		}
		if wait != nil {
			r = wait(t.Context())
			s.running.Wait()
		}
		s.metrics.observeReply(q, r)
		if n := s.counterSum(t, "dnsconfigurer_dns_queries_total") - queries; n != 1 {
			t.Errorf("%s: counted %d times, want 1", tt.name, n)
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_cache_lookups_total") - lookups; n != tt.lookups {
			t.Errorf("%s: got %d cache lookups, want %d", tt.name, n, tt.lookups)
		}
	}
}
