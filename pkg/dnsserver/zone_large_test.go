// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// replyVia returns the reply to a query.
func replyVia(t *testing.T, s *Server, via transport, name string, qtype uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(handlePacket(t.Context(), s, mustPack(t, new(dns.Msg).SetQuestion(name, qtype)), via, podAddr)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// TestZoneWire_CostOfLargeSets: over UDP a set of 5,000 endpoints costs what one of 50 costs.
func TestZoneWire_CostOfLargeSets(t *testing.T) {
	s := newServer(t, "namespace default"+largeService("default/db-0050", 50)+largeService("default/db-5000", 5000)+"\nloaded", Config{})
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		var allocs [2]float64
		var octets, records [2]int
		for i, name := range []string{"db-0050", "db-5000"} {
			packet := mustPack(t, new(dns.Msg).SetQuestion(name+".default.svc.cluster.local.", qtype).SetEdns0(700, false))
			buf, q := make([]byte, 0, maxUDP), &query{client: podAddr, received: time.Now()}
			answer := func() []byte {
				r, _ := s.handle(t.Context(), q, packet, buf)
				return r.wire
			}
			m := new(dns.Msg)
			if err := m.Unpack(answer()); err != nil || !m.Truncated {
				t.Fatalf("%s: %v, TC %t", name, err, m.Truncated)
			}
			octets[i], records[i] = len(answer()), len(m.Answer)
			allocs[i] = testing.AllocsPerRun(20, func() { answer() })
		}
		// Labels differ by a few octets: the last record of one reply may not fit into the other.
		if allocs[0] != allocs[1] || allocs[1] > 4 || min(octets[0], octets[1]) < 600 || records[1] < 8 {
			t.Errorf("%s of 50 and of 5,000 endpoints: got %v allocations, %v octets, %v records", dns.TypeToString[qtype], allocs, octets, records)
		}
	}
}

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
		{"alias", dns.TypeA, 4001, 4001, false}, // with the CNAME; counted when the target is queried
		{"alias", dns.TypeSRV, 900, 1300, false},
	} {
		before := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total")
		first := replyVia(t, s.Server, overTCP, tt.name+".default.svc.cluster.local.", tt.qtype)
		cut := s.counterSum(t, "dnsconfigurer_dns_zone_cut_total") - before
		if n := len(first.Answer); n < tt.min || n > tt.max || first.Truncated || first.Rcode != dns.RcodeSuccess {
			t.Errorf("%s %s: got %d records, TC %t, want %d to %d, no TC", tt.name, dns.TypeToString[tt.qtype], n, first.Truncated, tt.min, tt.max)
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
	for range 400 {
		for _, rr := range replyVia(t, s.Server, overTCP, "a-20000.default.svc.cluster.local.", dns.TypeA).Answer {
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

// TestCache_CostOfLargeReplies: a cached reply that does not fit is cut in wire form.
func TestCache_CostOfLargeReplies(t *testing.T) {
	records := ""
	for i := range 3000 {
		records += fmt.Sprintf("large.example. 300 A 10.0.%d.%d\n", i/256, i%256)
	}
	s := newServer(t, smallCluster, Config{Upstream: parseRecords(t, records).exchange})
	packet := mustPack(t, new(dns.Msg).SetQuestion("large.example.", dns.TypeA).SetEdns0(1232, false))
	handlePacket(t.Context(), s, packet, overUDP, podAddr)
	if !compareForms(t, s, packet) {
		t.Error("the reply is not in wire form")
	}
	buf, q := make([]byte, 0, maxUDP), &query{client: podAddr, received: time.Now()}
	if allocs := testing.AllocsPerRun(20, func() { s.handle(t.Context(), q, packet, buf) }); allocs != 0 {
		t.Errorf("got %v allocations, want 0", allocs)
	}
}

// TestZoneWire_GlueBeyondPointers: the addresses of targets at offsets that do not fit into a
// compression pointer have their full names.
func TestZoneWire_GlueBeyondPointers(t *testing.T) {
	s := newServer(t, "namespace default"+largeService("default/db", 600)+"\nloaded", Config{})
	m := replyVia(t, s, overTCP, "_a._tcp.db.default.svc.cluster.local.", dns.TypeSRV)
	if len(m.Answer) != 600 || len(m.Extra) != 600 || m.Truncated {
		t.Fatalf("got %d records, %d addresses, TC %t", len(m.Answer), len(m.Extra), m.Truncated)
	}
	if n := m.Len(); n < 2*maxPointer {
		t.Errorf("the reply has %d octets, too few for the test", n)
	}
	for i, rr := range m.Extra {
		a, target := rr.(*dns.A), m.Answer[i].(*dns.SRV).Target
		if label := strings.ReplaceAll(a.A.String(), ".", "-"); a.Hdr.Name != target || !strings.HasPrefix(target, label+".") {
			t.Errorf("address %d of %s: %v", i, target, rr)
		}
	}
}
