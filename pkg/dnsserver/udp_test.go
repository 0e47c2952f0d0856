// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestLastQueries: queries that the kernel holds when the server is told to end are
// answered.
func TestLastQueries(t *testing.T) {
	const queries = 200 // more than one batch
	s := bare(t, benchCluster(1), nil)
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("udp", sockets.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	packet, err := new(dns.Msg).SetQuestion("only-4.payments.svc.cluster.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range queries {
		if _, err := client.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx, sockets); err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(5 * time.Second))
	for i := range queries {
		if _, err := client.Read(make([]byte, maxUDP)); err != nil {
			t.Fatalf("%d of %d queries were answered: %v", i, queries, err)
		}
	}
}

// TestHandle_NeverBlocks: what the zone and the cache know is answered at once. For everything
// else handle returns how to wait, and has not asked any server yet. Either way a query is
// counted once.
func TestHandle_NeverBlocks(t *testing.T) {
	var asked atomic.Int32
	s := configured(t, noChange, shop+"\nservice shop/outside external=www.example", Config{
		Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}},
		Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			asked.Add(1)
			return nil, context.Canceled
		},
	})
	denied := new(dns.Msg).SetRcode(question("www.corp.example.", dns.TypeA), dns.RcodeNameError)
	denied.Ns = []dns.RR{&dns.SOA{Hdr: header("corp.example.", dns.TypeSOA, 60), Ns: "ns.corp.example.", Mbox: "a.corp.example.", Minttl: 60}}
	for _, tt := range []struct {
		what    string
		query   *dns.Msg
		atOnce  bool
		lookups int // in the cache
	}{
		{"a Service", question("web.shop.svc.cluster.local.", dns.TypeSRV), true, 0},
		{"a Service that does not exist", question("none.shop.svc.cluster.local.", dns.TypeMX), true, 0},
		{"a search list with a name of the zone, by name", question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), true, 0},
		{"the same, as option", question("web.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), true, 0},
		{"a rejected query", question("web.shop.svc.cluster.local.", dns.TypeAXFR), true, 0},
		{"a cached name", question("www.corp.example.", dns.TypeA), true, 1},
		{"an upstream name", question("www.example.", dns.TypeA), false, 1},
		{"an alias of an upstream name", question("outside.shop.svc.cluster.local.", dns.TypeA), false, 1},
		{"a search list with an upstream name, by name", question("www.example.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false, 4},
		{"the same, as option", question("www.example.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), false, 2},
		{"a search list with an alias", question("outside.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false, 2},
		{"a search list with a domain that the cache denies", question("www.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false, 3},
		{"a search list that is ignored", question("other.example.", dns.TypeA, "a b"), false, 1},
	} {
		packet, err := tt.query.Pack()
		if err != nil {
			t.Fatal(err)
		}
		s.cache.Clear()
		if q, ok := cache.NewQuestion(denied, nil); !ok || !s.cache.Put(q, denied, time.Now()) {
			t.Fatal("the denial is not cached")
		}
		before, queries, lookups := asked.Load(), s.count(t, "dnsconfigurer_dns_queries_total"), s.count(t, "dnsconfigurer_dns_cache_lookups_total")
		q := &query{via: overUDP, client: pod(), received: time.Now()}
		r, wait := s.handle(t.Context(), q, packet, nil)
		if (wait == nil) != tt.atOnce || (r.wire != nil) != tt.atOnce || asked.Load() != before {
			t.Errorf("%s: %x, waits: %t, upstream asked: %t", tt.what, r.wire, wait != nil, asked.Load() != before)
		}
		if wait != nil {
			r = wait(t.Context())
			s.running.Wait()
		}
		s.metrics.observeSent(q, r)
		if n := s.count(t, "dnsconfigurer_dns_queries_total") - queries; n != 1 {
			t.Errorf("%s: counted %d times", tt.what, n)
		}
		if n := s.count(t, "dnsconfigurer_dns_cache_lookups_total") - lookups; n != tt.lookups {
			t.Errorf("%s: %d cache lookups, want %d", tt.what, n, tt.lookups)
		}
	}
}
