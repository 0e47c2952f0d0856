// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// countsOf returns the counts of a client, and the zero value if it has none.
func countsOf(r ClientReport, addr netip.Addr) ClientCounts {
	i := slices.IndexFunc(r.Clients, func(c Client) bool { return c.Address == addr })
	if i < 0 {
		return ClientCounts{}
	}
	return r.Clients[i].ClientCounts
}

func TestClients(t *testing.T) {
	for _, tt := range []struct {
		question string
		want     ClientCounts
	}{
		{"web.default.svc.cluster.local. A", ClientCounts{}},
		{"web.default.svc.cluster.local. AAAA", ClientCounts{}},
		{"www.example. A", ClientCounts{}},
		{"gone.example. A", ClientCounts{Absent: 1}},
		{"api.shop.example.default.svc.cluster.local. A", ClientCounts{AbsentService: 1}},
		{"api.shop.example.svc.cluster.local. A", ClientCounts{AbsentService: 1}},
		{"web.cluster.local. A", ClientCounts{AbsentCluster: [MaxDots]uint64{1}}},
		{"api.shop.example.cluster.local. A", ClientCounts{AbsentCluster: [MaxDots]uint64{2: 1}}},
		{"a.b.c.d.e.f.g.cluster.local. A", ClientCounts{AbsentCluster: [MaxDots]uint64{5: 1}}},
		{"api.shop.corp.example. A", ClientCounts{AbsentHost: [MaxDots]uint64{1: 1}}},
		{"xcorp.example. A", ClientCounts{Absent: 1}},
		{"web.default.svc.cluster.local. AXFR", ClientCounts{Failed: 1}},
	} {
		t.Run(tt.question, func(t *testing.T) {
			corp := fqdn.Join(fqdn.Root, "corp", "example")
			s := newServer(t, smallCluster, Config{
				Upstream: parseRecords(t, "www.example. 100 A 192.0.2.1").exchange,
				Autopath: Autopath{HostSuffixes: []fqdn.Name{corp}},
			})
			exchangeDirect(t, s, parseQuery(tt.question, false))
			tt.want.Queries = 1
			if got := countsOf(s.Clients(), podAddr); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestClients_Transports sends the same query over each transport, and once more from the cache.
func TestClients_Transports(t *testing.T) {
	s := startServer(t, smallCluster, Config{Upstream: parseRecords(t, "www.example. 100 A 192.0.2.1").exchange})
	client := netip.MustParseAddr("127.0.0.1")
	s.forEachTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
		before := countsOf(s.Clients(), client)
		ask("www.example. A")
		if got := countsOf(s.Clients(), client).Queries; got != before.Queries+1 {
			t.Errorf("%d queries after a query, %d before", got, before.Queries)
		}
	})
}

// TestClients_Day: what is older than a day is gone, and what is younger than half a day is not.
func TestClients_Day(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTallies(CountClients, clusterDomain)
		tally := s.add()
		for hour := range 48 {
			q := &query{client: podAddr, received: time.Now(), question: []byte{0}, name: fqdn.Root}
			tally.count(q, &reply{wire: make([]byte, headerLen)}, nil)
			r := s.report(time.Now())
			age, n := r.Until.Sub(r.Since), countsOf(r, podAddr).Queries
			if age > 24*time.Hour || hour >= 12 && age < 12*time.Hour {
				t.Fatalf("after %d hours: a report of %v", hour, age)
			}
			if want := int(age/time.Hour) + 1; n != uint64(want) {
				t.Fatalf("after %d hours: %d queries in %v, want %d", hour, n, age, want)
			}
			time.Sleep(time.Hour)
		}
		time.Sleep(3 * clientPeriod)
		if r := s.report(time.Now()); len(r.Clients) > 0 {
			t.Errorf("clients of three periods ago: %+v", r.Clients)
		}
	})
}

// TestClients_Bounded: a client with many source addresses and names does not take more memory than the limits,
// and a name with many queries keeps its counter.
func TestClients_Bounded(t *testing.T) {
	s := newTallies(CountNames, clusterDomain)
	tally := s.add()
	ask := func(client netip.Addr, name string) {
		q := &query{client: client, received: time.Now(), question: []byte{0}, name: fqdn.Join(fqdn.Root, name, "example")}
		tally.count(q, &reply{wire: make([]byte, headerLen), rcode: dns.RcodeNameError}, nil)
	}
	addr := netip.MustParseAddr("2001:db8::")
	const total = 3 * maxClients
	for i := range total {
		ask(addr, fmt.Sprint("n", i))
		ask(podAddr, "often")
		addr = addr.Next()
	}
	r := s.report(time.Now())
	if len(r.Clients) > maxClients || len(r.Names) > maxNames {
		t.Errorf("%d clients, %d names", len(r.Clients), len(r.Names))
	}
	sum := r.Others.Queries
	for _, c := range r.Clients {
		sum += c.Queries
	}
	if sum != 2*total {
		t.Errorf("%d queries in all counters: want %d", sum, 2*total)
	}
	i := slices.IndexFunc(r.Names, func(n ClientName) bool { return n.Name == "often.example." && n.Address == podAddr })
	if i < 0 {
		t.Fatal("the most frequent name has no counter")
	}
	if n := r.Names[i]; n.Queries != total || n.Error > 1 || !n.Absent {
		t.Errorf("got %+v, want %d queries", n, total)
	}
}

func TestClients_Statistics(t *testing.T) {
	for statistics, want := range map[ClientStatistics]string{
		CountClients: "1 clients, names ",
		CountNames:   "1 clients, names gone.example.",
		CountNothing: "0 clients, names ",
	} {
		s := newServer(t, smallCluster, Config{Statistics: statistics, Upstream: parseRecords(t, "www.example. 100 A 192.0.2.1").exchange})
		exchangeDirect(t, s, parseQuery("gone.example. A", false))
		exchangeDirect(t, s, parseQuery("gone.example.default.svc.cluster.local. A", false))
		r := s.Clients()
		var names []string
		for _, n := range r.Names {
			names = append(names, n.Name)
		}
		if got := fmt.Sprintf("%d clients, names %s", len(r.Clients), strings.Join(names, " ")); got != want {
			t.Errorf("%d: got %q, want %q", statistics, got, want)
		}
	}
}
