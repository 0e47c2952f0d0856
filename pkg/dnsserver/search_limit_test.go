// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// TestSubqueryRate checks both sides of the burst, and how fast tokens come back.
func TestSubqueryRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSubqueryRate(10, 20)
		takeAll := func(client netip.Addr) (n int) {
			for r.removeToken(client) {
				n++
			}
			return n
		}
		if got := takeAll(podAddr); got != 20 || !r.exhausted(podAddr) || r.exhausted(otherPod) {
			t.Errorf("got a burst of %d, want 20, for one client alone", got)
		}
		if mapped := netip.AddrFrom16(podAddr.As16()); !r.exhausted(mapped) { // at an IPv6 socket for both families
			t.Error("the IPv4-mapped address is another client")
		}
		time.Sleep(99 * time.Millisecond)
		if r.removeToken(podAddr) {
			t.Error("a token after 99 ms, want one every 100 ms")
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{time.Millisecond, 1}, {time.Second, 10}, {2 * time.Second, 20}, {time.Hour, 20}} {
			time.Sleep(step.wait)
			if got := takeAll(podAddr); got != step.want {
				t.Errorf("after %v: got %d tokens, want %d", step.wait, got, step.want)
			}
		}
	})
}

// TestSubqueryRate_Clients: at most maxRateClients have a bucket. Further ones share one until
// others are full again. None gets a new burst by being forgotten.
func TestSubqueryRate_Clients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0A000000+uint32(i))))
		}
		r := newSubqueryRate(10, 20)
		for range 20 {
			r.removeToken(client(0))
		}
		time.Sleep(time.Second) // client 0 has 10 tokens then
		for i := range 2 * maxRateClients {
			if !r.removeToken(client(i)) && i < maxRateClients {
				t.Fatalf("client %d has no token", i)
			}
		}
		if n := len(r.buckets); n != maxRateClients+1 { // and the shared one
			t.Errorf("%d buckets, want %d", n, maxRateClients+1)
		}
		if !r.exhausted(client(maxRateClients)) || r.exhausted(client(1)) {
			t.Error("the excess clients do not share a bucket")
		}
		time.Sleep(100 * time.Millisecond) // the others are full again, client 0 has 10 tokens
		time.Sleep(time.Second - 100*time.Millisecond)
		if r.exhausted(client(maxRateClients)) || len(r.buckets) > 2 {
			t.Errorf("a new client has no bucket, %d are left", len(r.buckets))
		}
		tokens := 0
		for r.removeToken(client(0)) {
			tokens++
		}
		if tokens != 19 {
			t.Errorf("client 0 has %d tokens, want 19", tokens)
		}
	})
}

// countingUpstream counts queries, by name if it is not nil.
func countingUpstream(count *atomic.Int64, exchange Exchange) Exchange {
	return func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		count.Add(1)
		return exchange(ctx, q)
	}
}

// noData is an upstream server for which every name exists, without records.
func noData(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	m.Ns = []dns.RR{&dns.SOA{Hdr: header(".", dns.TypeSOA, 60), Ns: ".", Mbox: ".", Minttl: 60}}
	return m, nil
}

// TestSearch_Amplification: one packet causes at most ten upstream queries, whatever names exist.
// Most names cost one for each domain outside the cluster and one for the bare name.
func TestSearch_Amplification(t *testing.T) {
	hosts := make([]fqdn.Name, MaxHostSuffixes)
	for i := range hosts {
		hosts[i] = mustName(t, fmt.Sprintf("d%d.example", i))
	}
	var list []string
	for _, h := range hosts {
		list = append(list, strings.TrimSuffix(h.String(), "."))
	}
	last := parseRecords(t, "web. 300 IN A 192.0.2.1\nweb. 300 IN AAAA 2001:db8::1").exchange
	for _, tt := range []struct {
		name     string
		upstream Exchange
		qtype    uint16
		want     int64
		rcode    int
	}{
		{"no name exists", recordSet(nil).exchange, dns.TypeA, 9, dns.RcodeNameError},
		{"no name exists", recordSet(nil).exchange, dns.TypeTXT, 9, dns.RcodeNameError},
		{"the bare name is found", last, dns.TypeA, 9, dns.RcodeSuccess},
		{"the bare name is found", last, dns.TypeAAAA, 10, dns.RcodeSuccess},
		{"all names exist without records", noData, dns.TypeA, 10, dns.RcodeServerFailure},
		{"all names exist without records", noData, dns.TypeTXT, 10, dns.RcodeServerFailure},
		{"all servers fail", unreachable, dns.TypeAAAA, 9, dns.RcodeServerFailure},
	} {
		for _, q := range []*dns.Msg{newQuery(autopathName("web", "shop"), tt.qtype), newQuery("web.", tt.qtype, strings.Join(list, ","))} {
			var count atomic.Int64
			s := newServer(t, "namespace shop\nloaded",
				Config{Upstream: countingUpstream(&count, tt.upstream), Autopath: Autopath{HostSuffixes: hosts}})
			if m := exchangeDirect(t, s, q); m.Rcode != tt.rcode {
				t.Errorf("%s: %s: got %s, want %s", tt.name, q.Question[0].String(),
					dns.RcodeToString[m.Rcode], dns.RcodeToString[tt.rcode])
			}
			s.running.Wait()
			if got := count.Load(); got != tt.want {
				t.Errorf("%s: %s: got %d upstream queries, want %d", tt.name, q.Question[0].String(), got, tt.want)
			}
		}
	}
}

// TestSearch_SubqueryRate: 100 search lists of one client cause no more queries than its burst.
// Above it the option is ignored, and names below the suffix get SERVFAIL, which is not cached.
// Other clients are not affected.
func TestSearch_SubqueryRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int64
		records := parseRecords(t, "www.corp.example. 300 IN A 192.0.2.1").exchange
		s := newTestServer(t, "loaded", Config{Upstream: countingUpstream(&count, records),
			Autopath: Autopath{HostSuffixes: []fqdn.Name{mustName(t, "corp.example")}}, Limits: Limits{SearchRate: 10, SearchBurst: 20}})
		for i := range 50 {
			exchangeDirect(t, s.Server, newQuery(fmt.Sprintf("n%d.", i), dns.TypeA, "corp.example"))
			exchangeDirect(t, s.Server, newQuery(autopathName(fmt.Sprintf("m%d", i), "shop"), dns.TypeA))
		}
		s.running.Wait()
		plain := int64(s.counterSum(t, "dnsconfigurer_dns_autopath_ignored_total", "reason=rate")) // for the bare name, without expansion
		if got := count.Load() - plain; got != 20 || plain == 0 {
			t.Errorf("100 search lists caused %d queries, and %d were ignored, want 20, and some", got, plain)
		}
		refused := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "budget=search", "reason=rate")
		if refused == 0 {
			t.Error("no refusal was counted")
		}
		www := newQuery(autopathName("www", "shop"), dns.TypeA)
		entries := s.cache.Stats().Entries
		m := exchangeDirect(t, s.Server, www)
		if m.Rcode != dns.RcodeServerFailure || extendedCode(m) != extendedLimit || s.cache.Stats().Entries != entries {
			t.Errorf("above the rate: got %v, and a cache entry %t", m, s.cache.Stats().Entries != entries)
		}
		if m := exchangeDirect(t, s.Server, newQuery("www.", dns.TypeA, "corp.example")); isExpanded(m) || m.Rcode != dns.RcodeNameError {
			t.Errorf("above the rate: got %v, want the bare name", m)
		}
		if m := exchangeVia(t, s.Server, overUDP, otherPod, www); len(m.Answer) != 2 {
			t.Errorf("another client: got %v, want two records", m)
		}
		s.cache.Clear()
		time.Sleep(200 * time.Millisecond)
		if m := exchangeDirect(t, s.Server, www); len(m.Answer) != 2 {
			t.Errorf("200 ms later: got %v, want two records", m)
		}
	})
}

// TestNodeCache_SubqueryRate: a node cache that expands search lists itself does not cache its
// refusals either.
func TestNodeCache_SubqueryRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusterDNS{Server: newServer(t, shopCluster, Config{}), ignoresOption: true}
		s := newCachingServer(t, Config{Autopath: Autopath{Allowed: []netip.Prefix{}}, Limits: Limits{SearchRate: 10, SearchBurst: 10}})
		s.SetForwarding(c.forwarding(t, recordSet(nil).exchange))
		for i := range 4 { // four queries each
			exchangeDirect(t, s.Server, newQuery(autopathName(fmt.Sprint("n", i), "shop"), dns.TypeA))
		}
		web := newQuery(autopathName("web", "shop"), dns.TypeA)
		if m := exchangeDirect(t, s.Server, web); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("above the rate: got %v, want SERVFAIL", m)
		}
		if got := addresses(exchangeVia(t, s.Server, overUDP, otherPod, web)); got != "10.96.0.7" {
			t.Errorf("another client: got %s, want 10.96.0.7", got)
		}
	})
}
