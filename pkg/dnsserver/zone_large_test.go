// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestZone_RRsetLimit: over TCP a client gets at most maxRRset records, or what fits, without TC.
// Over time it gets all of them. Every such reply is counted, and one a minute is logged.
func TestZone_RRsetLimit(t *testing.T) {
	var log bytes.Buffer
	cluster := "namespace default\nservice default/alias external=a-20000.default.svc.cluster.local"
	for _, n := range []int{4000, 4001, 20000} {
		cluster += largeService(fmt.Sprintf("default/a-%d", n), n)
	}
	cluster += "\nservice default/six\nslice default/six"
	for i := range 4000 {
		cluster += fmt.Sprintf(" fd00::%x", i+1)
	}
	s := newTestServer(t, cluster+"\nloaded", Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, tt := range []struct {
		name     string
		qtype    uint16
		min, max int
		cut      bool
	}{
		{"a-4000", dns.TypeA, 4000, 4000, false},
		{"a-4001", dns.TypeA, 4000, 4000, true},
		{"a-20000", dns.TypeA, 4000, 4000, true},
		{"six", dns.TypeAAAA, 2330, 2340, true}, // of 28 octets
		{"a-4000", dns.TypeSRV, 900, 1300, true},
		{"_b._tcp.a-20000", dns.TypeSRV, 900, 1300, true},
		{"alias", dns.TypeA, 4001, 4096, false}, // with the CNAME; counted when it is sent
		{"alias", dns.TypeSRV, 900, 1300, false},
	} {
		before := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total")
		first := exchangeVia(t, s.Server, overTCP, podAddr, new(dns.Msg).SetQuestion(tt.name+".default.svc.cluster.local.", tt.qtype))
		cut := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total") - before
		if n := len(first.Answer); n < tt.min || n > tt.max || first.Truncated || first.Rcode != dns.RcodeSuccess {
			t.Errorf("%s %s: got %d records, TC %t, want %d to %d, no TC", tt.name,
				dns.TypeToString[tt.qtype], n, first.Truncated, tt.min, tt.max)
		}
		if (cut == 1) != tt.cut {
			t.Errorf("%s %s: counted %v times as cut, want %t", tt.name, dns.TypeToString[tt.qtype], cut, tt.cut)
		}
		distinct := map[string]bool{}
		for _, rr := range first.Answer {
			distinct[rr.String()] = true
		}
		if len(distinct) != len(first.Answer) {
			t.Errorf("%s %s: got %d records, %d of them distinct", tt.name, dns.TypeToString[tt.qtype], len(first.Answer), len(distinct))
		}
	}
	if n := strings.Count(log.String(), "RRset is larger than a reply"); n != 1 {
		t.Errorf("got %d warnings, want 1:\n%s", n, log.String())
	}
	seen := map[string]bool{}
	for i := range 400 { // a reply is cached for a second
		m, at := new(dns.Msg), time.Now().Add(time.Duration(i)*replyCacheTime)
		must.Succeed(t, m.Unpack(replyAt(t, s.Server, parseQuery("a-20000.default.svc.cluster.local. A", false), at)))
		for _, rr := range m.Answer {
			seen[rr.String()] = true
		}
		if len(seen) == 20000 {
			break
		}
	}
	if len(seen) != 20000 {
		t.Errorf("400 replies have %d of 20,000 addresses", len(seen))
	}
}

// TestServeStream_AliasOfLargeSet: an alias of a name with many records. If they do not fit into a reply
// over TCP, it has no TC, as that of the name itself, and is counted if they are of the cluster. Replies
// begin with different records of the cluster.
func TestServeStream_AliasOfLargeSet(t *testing.T) {
	cluster := "namespace default"
	for _, n := range []int{2000, 5000} {
		cluster += fmt.Sprintf("\nservice default/alias-%d external=db-%d.default.svc.cluster.local", n, n) +
			largeService(fmt.Sprintf("default/db-%d", n), n)
	}
	cluster += "\nservice default/alias-outside external=large.example"
	outside := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		m := new(dns.Msg).SetReply(q)
		for i := range maxAddresses - 2 { // beside the question, but not beside the alias
			hdr := dns.RR_Header{Name: "large.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}
			m.Answer = append(m.Answer, &dns.A{Hdr: hdr, A: net.IPv4(192, 0, byte(i>>8), byte(i))})
		}
		return m, nil
	}
	s := startServer(t, cluster+"\nloaded", Config{Upstream: outside})
	c := s.dialFrom(t, netip.MustParseAddr("127.0.2.1"))
	defer c.Close()
	const queries = 8
	for name, tt := range map[string]struct {
		records, partial int
		first            int // different first records
	}{
		"alias-2000":    {1 + 2000, 0, 2},
		"alias-5000":    {1 + maxRRset, queries, 2},
		"alias-outside": {1 + maxRRset, 0, 1}, // in the order of its servers
	} {
		before := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total")
		first := map[string]bool{}
		for range queries {
			must.Get(c.Write(frame(mustPack(t, parseQuery(name+".default.svc.cluster.local. A", true)))))(t)
			c.SetReadDeadline(time.Now().Add(time.Minute))
			m := must.Get(readReply(c))(t)
			if len(m.Answer) < tt.records || m.Truncated {
				t.Fatalf("%s: got %d records, TC %t, want at least %d, no TC", name, len(m.Answer), m.Truncated, tt.records)
			}
			first[m.Answer[1].String()] = true
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total") - before; n != tt.partial {
			t.Errorf("%s: %d replies are counted as partial, want %d", name, n, tt.partial)
		}
		if len(first) < tt.first {
			t.Errorf("%s: %d replies begin with %d different addresses, want %d or more", name, queries, len(first), tt.first)
		}
	}
}

// TestZoneWire_TargetsBeyondPointers: the addresses of targets at offsets that do not fit into a
// compression pointer have their full names.
func TestZoneWire_TargetsBeyondPointers(t *testing.T) {
	s := newServer(t, "namespace default"+largeService("default/db", 600)+"\nloaded", Config{})
	m := exchangeVia(t, s, overTCP, podAddr, parseQuery("_a._tcp.db.default.svc.cluster.local. SRV", false))
	if len(m.Answer) != 600 || len(m.Extra) != 600 || m.Truncated {
		t.Fatalf("got %d records, %d addresses, TC %t", len(m.Answer), len(m.Extra), m.Truncated)
	}
	if n := m.Len(); n < 2*pointerEnd {
		t.Errorf("the reply has %d octets, too few for the test", n)
	}
	for i, rr := range m.Extra {
		a, target := rr.(*dns.A), m.Answer[i].(*dns.SRV).Target
		if label := strings.ReplaceAll(a.A.String(), ".", "-"); a.Hdr.Name != target || !strings.HasPrefix(target, label+".") {
			t.Errorf("address %d of %s: %v", i, target, rr)
		}
	}
}

// replyAt returns the reply to a query that arrives over TCP at a time.
func replyAt(t *testing.T, s *Server, m *dns.Msg, at time.Time) []byte {
	t.Helper()
	r, wait := s.handle(t.Context(), &query{via: overTCP, client: podAddr, received: at}, mustPack(t, m), nil)
	if wait != nil {
		t.Fatal("the reply depends on other servers")
	}
	return r.wire
}

// TestZoneWire_FirstQueryOfLargeSets: the first query after a change of a Service with 100,000
// endpoints does not read all of them. If it did, it would allocate 13 MB for addresses and 105 MB
// for SRV records.
func TestZoneWire_FirstQueryOfLargeSets(t *testing.T) {
	z, change := largeZone(t, 1000)
	s := newServer(t, "", Config{Zone: z})
	for _, name := range []string{"db", "_http._tcp.db", "10-0-7-7.db"} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
			packet := mustPack(t, new(dns.Msg).SetQuestion(name+".default.svc.cluster.local.", qtype).SetEdns0(1232, false))
			change()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			wire := handlePacket(t.Context(), s, packet, overUDP, podAddr)
			runtime.ReadMemStats(&after)
			m := new(dns.Msg)
			if err := m.Unpack(wire); err != nil || m.Rcode != dns.RcodeSuccess {
				t.Errorf("%s %v: got %v, %v", name, dns.Type(qtype), m, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%s %v: %d octets were allocated", name, dns.Type(qtype), n)
			}
		}
	}
}

// TestReplyCache: over TCP a long reply is built once a second, and again after a change of its
// Service. Each client gets its own ID, its case, and a rotation of the addresses.
func TestReplyCache(t *testing.T) {
	z, change := largeZone(t, 100)
	s := newServer(t, "", Config{Zone: z})
	now := time.Now()
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		reply := func(after time.Duration, edns bool) (records []string) {
			q := new(dns.Msg).SetQuestion("dB.deFault.svc.clusTer.local.", qtype)
			if edns {
				q.SetEdns0(1232, false)
			}
			m := new(dns.Msg)
			must.Succeed(t, m.Unpack(replyAt(t, s, q, now.Add(after))))
			if m.Id != q.Id || !m.Authoritative || m.Truncated || m.Question[0] != q.Question[0] || (m.IsEdns0() != nil) != edns {
				t.Errorf("got %v", m.MsgHdr)
			}
			for _, rr := range m.Answer {
				if rr.Header().Name != q.Question[0].Name {
					t.Fatalf("owner: got %s", rr.Header().Name)
				}
				rr.Header().Name = "owner."
				records = append(records, rr.String())
			}
			return records
		}
		equal := func(a, b []string) bool {
			return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
		}
		first := reply(0, false)
		if len(first) < 900 || len(first) > maxRRset {
			t.Fatalf("%v: got %d records", dns.Type(qtype), len(first))
		}
		if next := reply(replyCacheTime-1, false); !equal(first, next) {
			t.Errorf("%v: the second reply has other records", dns.Type(qtype))
		}
		if next := reply(replyCacheTime, false); equal(first, next) {
			t.Errorf("%v: the reply is cached for more than %v", dns.Type(qtype), replyCacheTime)
		}
		reply(replyCacheTime, true)
		before := reply(replyCacheTime, false)
		change()
		if next := reply(replyCacheTime, false); equal(before, next) {
			t.Errorf("%v: the reply is cached after a change", dns.Type(qtype))
		}
		rotations := map[string]bool{}
		for range 20 {
			rotations[reply(replyCacheTime, true)[0]] = true
		}
		if rotated := len(rotations) > 1; rotated != (qtype == dns.TypeA) {
			t.Errorf("%v: %d rotations", dns.Type(qtype), len(rotations))
		}
	}
}

// TestReplyCache_Bound: the cached replies take at most maxReplyCache. Expired ones make room,
// short ones are not cached.
func TestReplyCache_Bound(t *testing.T) {
	var cache replyCache
	now := time.Now()
	wire := make([]byte, 60_000)
	put := func(i int, at time.Time, wire []byte) {
		name := must.Get(fqdn.ParseName(fmt.Sprintf("n%d.example", i)))(t)
		cache.put(&query{name: name, qtype: dns.TypeSRV, received: at}, 1, wire, false)
		sum := 0
		for _, k := range cache.replies {
			sum += len(k.wire)
		}
		if sum != cache.length || sum > maxReplyCache {
			t.Fatalf("%d octets are cached and %d counted, want at most %d", sum, cache.length, maxReplyCache)
		}
	}
	put(0, now, wire[:minCachedReply-1])
	if len(cache.replies) != 0 {
		t.Error("a short reply is cached")
	}
	for i := range 200 {
		put(i, now, wire)
	}
	if n := len(cache.replies); n != maxReplyCache/len(wire) {
		t.Errorf("%d replies are cached, want %d", n, maxReplyCache/len(wire))
	}
	put(0, now, wire[:minCachedReply])
	put(300, now.Add(replyCacheTime), wire)
	put(301, now.Add(replyCacheTime), wire)
	if n := len(cache.replies); n != 2 {
		t.Errorf("%d replies are cached after %v, want 2", n, replyCacheTime)
	}
}

// largeZone returns a zone with the headless Service db of 100 endpoints in each slice, and a
// function that changes one endpoint.
func largeZone(t testing.TB, slices int) (z *zone.Zone, change func()) {
	t.Helper()
	z = newZone(t, reverseRanges, "namespace default\nservice default/db\nloaded")
	slice := func(i int, ready bool) zone.EndpointSlice {
		s := zone.EndpointSlice{Namespace: "default", Name: fmt.Sprintf("db-%d", i), Service: "db",
			Ports: []zone.Port{{Name: "http", Protocol: "tcp", Number: 80}}}
		for j := range 100 {
			addr := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(j)})
			s.Endpoints = append(s.Endpoints, zone.Endpoint{Addr: addr, Ready: ready || j > 0})
		}
		return s
	}
	z.Update(1, func(e *zone.Edit) {
		for i := range slices {
			e.PutEndpointSlice(slice(i, true))
		}
	})
	ready := true
	return z, func() {
		ready = !ready
		z.Update(z.Snapshot().Serial()+1, func(e *zone.Edit) { e.PutEndpointSlice(slice(0, ready)) })
	}
}
