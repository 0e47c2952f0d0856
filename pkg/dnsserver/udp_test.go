// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
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

// TestAtOnce: a reader answers by itself what is at hand. It is not kept waiting for
// others, asks nothing of them, and does not count what it leaves alone.
func TestAtOnce(t *testing.T) {
	s := configured(t, noChange, shop+"\nservice shop/outside external=www.example", Config{
		Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}},
		Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			t.Errorf("%v is asked", q.Question[0])
			return nil, context.Canceled
		},
	})
	denied := new(dns.Msg).SetRcode(question("www.corp.example.", dns.TypeA), dns.RcodeNameError)
	denied.Ns = []dns.RR{&dns.SOA{Hdr: header("corp.example.", dns.TypeSOA, 60), Ns: "ns.corp.example.", Mbox: "a.corp.example.", Minttl: 60}}
	if q, ok := cache.NewQuestion(denied, nil); !ok || !s.cache.Put(q, denied, time.Now()) {
		t.Fatal("the denial is not kept")
	}
	events := func() (sum int) {
		for _, metric := range []string{"queries", "cache_lookups", "autopath_expansions", "autopath_ignored"} {
			sum += s.count(t, "dnsconfigurer_dns_"+metric+"_total")
		}
		return sum
	}
	for _, tt := range []struct {
		what  string
		query *dns.Msg
		done  bool
	}{
		{"a Service", question("web.shop.svc.cluster.local.", dns.TypeSRV), true},
		{"no Service", question("none.shop.svc.cluster.local.", dns.TypeMX), true},
		{"what the zone has of a search list, by name", question("web.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), true},
		{"the same, as option", question("web.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), true},
		{"a query that is refused", question("web.shop.svc.cluster.local.", dns.TypeAXFR), true},
		{"the name of others", question("www.example.", dns.TypeA), false},
		{"an alias of one", question("outside.shop.svc.cluster.local.", dns.TypeA), false},
		{"a search list that leads to one, by name", question("www.example.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false},
		{"the same, as option", question("www.example.", dns.TypeA, "shop.svc.cluster.local,svc.cluster.local,cluster.local"), false},
		{"a search list that leads to an alias", question("outside.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false},
		{"a search list with a domain that the cache denies", question("www.search.shop.cluster.local.ap.k8s.io.", dns.TypeA), false},
		{"a search list that does not count", question("other.example.", dns.TypeA, "a b"), false},
	} {
		packet, err := tt.query.Pack()
		if err != nil {
			t.Fatal(err)
		}
		counted := events()
		reply, done := s.respond(t.Context(), packet, overUDP, pod(), true)
		if done != tt.done || (reply != nil) != tt.done {
			t.Errorf("%s: %t, %x", tt.what, done, reply)
		}
		if n := events() - counted; (n > 0) != tt.done {
			t.Errorf("%s: counted %d times", tt.what, n)
		}
	}
}
