// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// queryVariants returns queries for one question: each combination of the header's flags with
// all additional sections, the name in upper case, and another class.
func queryVariants(name string, qtype uint16) []*dns.Msg {
	var list []*dns.Msg
	opts := []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.SetEdns0(0, false) },
		func(m *dns.Msg) { m.SetEdns0(700, true) },
		func(m *dns.Msg) { m.SetEdns0(4096, false) },
		func(m *dns.Msg) { m.SetEdns0(1232, true).IsEdns0().SetVersion(1) },
		func(m *dns.Msg) {
			m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}}
		},
		func(m *dns.Msg) {
			m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
		},
		func(m *dns.Msg) {
			m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_LOCAL{Code: autopath.Option, Data: []byte("default.svc.cluster.local,example")}}
		},
		func(m *dns.Msg) { m.Extra = []dns.RR{&dns.A{Hdr: header(".", dns.TypeA, 0), A: []byte{1, 2, 3, 4}}} },
	}
	for bits := range 8 {
		for _, opt := range opts {
			m := new(dns.Msg).SetQuestion(name, qtype)
			m.RecursionDesired, m.AuthenticatedData, m.CheckingDisabled = bits&1 == 0, bits&2 != 0, bits&4 != 0
			opt(m)
			list = append(list, m)
		}
	}
	upper := new(dns.Msg).SetQuestion(strings.ToUpper(name), qtype)
	chaos := new(dns.Msg).SetQuestion(name, qtype)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	return append(list, upper, chaos)
}

// handleWithoutWait returns the reply to a packet unless it has to wait for other servers, and
// whether it was written in wire form.
func handleWithoutWait(t testing.TB, s *Server, packet []byte, at time.Time) (wire []byte, inWire bool) {
	t.Helper()
	var buf [maxUDP]byte
	q := &query{via: overUDP, client: podAddr, received: at}
	r, _ := s.handle(t.Context(), q, packet, buf[:0])
	if r.wire != nil && !r.packed && &r.wire[0] != &buf[0] {
		t.Errorf("%x: the reply is not in its buffer", packet)
	}
	return r.wire, r.wire != nil && !r.packed
}

// replyFromRecords returns the reply to a packet, made from records also if the source has it in
// wire form.
func replyFromRecords(t testing.TB, s *Server, packet []byte, at time.Time) []byte {
	t.Helper()
	q := &query{via: overUDP, client: podAddr, received: at}
	if !q.parse(packet) || q.rejectCode != dns.RcodeSuccess {
		return q.reply(answer{source: fromServer, rcode: q.rejectCode}, nil).wire
	}
	r, ok := s.zoneRecords(t.Context(), q, s.cfg.Zone.Snapshot())
	if _, below := q.name.Within(autopath.Suffix); below || !ok {
		r = s.forward(t.Context(), q)
	}
	a := r.await(t.Context()).withRecords()
	a.answers = withOwnerCase(a.answers, q.presentationName()) // those of a cached reply are in lower case
	return q.reply(a, nil).wire
}

// compareForms answers a packet, and reports whether the answer was in wire form. If so, it must
// be the same as from records. The order of addresses may differ, and the case of the zone's name
// in the SOA record: in wire form the name is compressed to that in the question.
func compareForms(t testing.TB, s *Server, packet []byte) bool {
	t.Helper()
	now := time.Now()
	wire, inWire := handleWithoutWait(t, s, packet, now)
	if !inWire {
		return false
	}
	if got, want := formText(t, wire), formText(t, replyFromRecords(t, s, packet, now)); got != want {
		t.Errorf("%x\nin wire form:\n%s\nfrom records:\n%s", packet, got, want)
	}
	if len(wire) > maxUDP {
		t.Errorf("%x: got %d octets, want at most %d", packet, len(wire), maxUDP)
	}
	return true
}

// formText returns a reply as text, with the names of SOA records in lower case.
func formText(t testing.TB, reply []byte) string {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("%x: %v", reply, err)
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			soa.Hdr.Name, soa.Ns, soa.Mbox = strings.ToLower(soa.Hdr.Name), strings.ToLower(soa.Ns), strings.ToLower(soa.Mbox)
		}
	}
	options := ""
	if opt := m.IsEdns0(); opt != nil {
		options = opt.String()
	}
	if m.Truncated { // with any of the records
		return fmt.Sprintf("%+v %v %s\n%d %d %d", m.MsgHdr, m.Question, options, len(m.Answer), len(m.Ns), len(m.Extra))
	}
	return fmt.Sprintf("%+v %v %s\n%s", m.MsgHdr, m.Question, options, replyText(m))
}

// queryTypes are types of all kinds: with records, with NODATA, with a minimal answer, rejected.
var queryTypes = []uint16{0, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypePTR, dns.TypeSOA, dns.TypeNS, dns.TypeCNAME,
	dns.TypeHINFO, dns.TypeOPT, dns.TypeHTTPS, dns.TypeAXFR, dns.TypeANY}

// TestWire_AgreesWithRecords sends every question of the golden files, with all types and in all
// variants, to a server that has cached the replies.
func TestWire_AgreesWithRecords(t *testing.T) {
	queries, inWire := 0, map[string]int{}
	for _, file := range readGoldenFiles(t, "testdata") {
		if file.local || strings.HasPrefix(file.name, "unloaded") || strings.HasPrefix(file.name, "autopath") &&
			file.name != "autopath-names" {
			continue // neither local names nor SERVFAIL nor expansions are ever in wire form
		}
		t.Run(file.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, file.cluster, Config{Upstream: file.upstream.exchange})
				for _, question := range file.replies {
					name, _, _ := strings.Cut(question.Name, " ")
					for _, qtype := range queryTypes {
						for _, m := range queryVariants(name, qtype) {
							packet := mustPack(t, m)
							queries++
							handlePacket(t.Context(), s, packet, overUDP, podAddr)
							if compareForms(t, s, packet) {
								q := &query{received: time.Now()}
								r, _ := s.handle(t.Context(), q, packet, nil)
								inWire[r.source.String()]++
							}
						}
					}
				}
			})
		})
	}
	t.Logf("%d queries, replies in wire form by source: %v", queries, inWire)
	if inWire[fromZone.String()] == 0 || inWire[fromCache.String()] == 0 {
		t.Error("the zone or the cache has no reply in wire form")
	}
}

// TestWire_Size checks replies of all lengths around the limits of clients: all are in wire form,
// and those that do not fit are truncated. The hostnames of a Service are of equal length, so
// that the same number of SRV records fits in any order.
func TestWire_Size(t *testing.T) {
	const services = 100
	cluster := "namespace default"
	for n := range services {
		cluster += fmt.Sprintf("\nservice default/s%d\nslice default/s%d a:tcp:1 b:tcp:2", n, n)
		for i := range n + 1 {
			cluster += fmt.Sprintf(" 10.244.%d.%d=h%02d fd00::%x:%x=h%02d", n, i, i, n, i, i)
		}
	}
	s := newServer(t, cluster+"\nloaded", Config{})
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
		for _, size := range []uint16{0, 512, 800, 1231, 1232} {
			fits := 0
			for n := range services {
				m := new(dns.Msg).SetQuestion(fmt.Sprintf("s%d.default.svc.cluster.local.", n), qtype)
				if size != 0 {
					m.SetEdns0(size, false)
				}
				packet := mustPack(t, m)
				reply := new(dns.Msg)
				must.Succeed(t, reply.Unpack(handlePacket(t.Context(), s, packet, overUDP, podAddr)))
				if !compareForms(t, s, packet) {
					t.Errorf("%d addresses, size %d: the reply is not in wire form", n+1, size)
				}
				if !reply.Truncated {
					fits = n + 1
				}
			}
			if fits == 0 || fits == services {
				t.Errorf("size %d: up to %d addresses fit: no reply on one side of the limit", size, fits)
			}
		}
	}
}

// TestHandle_NoAllocations answers the most frequent queries, and logs them.
func TestHandle_NoAllocations(t *testing.T) {
	s := newServer(t, benchCluster(100), Config{Upstream: parseRecords(t, benchRecords).exchange})
	buf := make([]byte, 0, maxUDP)
	q := &query{client: podAddr}
	log, lines := &QueryLog{Classes: LogAll}, make([]byte, 0, 512)
	for name, packet := range benchQueries(t, s) {
		t.Run(name, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				q.received = time.Now()
				r, _ := s.handle(t.Context(), q, packet, buf)
				if r.wire == nil {
					t.Fatal("no reply")
				}
				s.observeReply(q, r)
				lines = log.append(lines[:0], q, &r)
			})
			if allocs != 0 && (name != "SRV" || allocs > 20) { // TestZoneWire_FirstQueryOfLargeSets bounds the octets
				t.Errorf("got %v allocations, want 0", allocs)
			}
			if _, inWire := handleWithoutWait(t, s, packet, time.Now()); !inWire {
				t.Error("the reply is not in wire form")
			}
		})
	}
}

// FuzzWire: an answer in wire form is the same as from records.
func FuzzWire(f *testing.F) {
	for _, name := range []string{"web.default.svc.cluster.local.", "nothing.default.svc.cluster.local.",
		"www.example.", "9.9.96.10.in-addr.arpa.", "cluster.local."} {
		for _, m := range queryVariants(name, dns.TypeA)[:12] {
			packet := mustPack(f, m)
			f.Add(packet)
		}
	}
	s := newServer(f, "namespace default\nservice default/web 10.96.0.7 fd00::7 http:tcp:80\n"+
		"service default/out external=www.example.\nloaded",
		Config{Upstream: parseRecords(f, "www.example. 86400 A 192.0.2.1").exchange})
	f.Fuzz(func(t *testing.T, packet []byte) { compareForms(t, s, packet) })
}

// largeService returns a headless Service with n endpoints and five ports.
func largeService(name string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nservice %s\nslice %s a:tcp:1 b:tcp:2 c:tcp:3 d:tcp:4 e:udp:5", name, name)
	for i := range n {
		fmt.Fprintf(&b, " 10.%d.%d.%d", 100+i>>16, i>>8&255, i&255)
	}
	return b.String()
}

// benchCluster returns a cluster with n dual-stack Services, one with IPv4 only, a small headless
// one and a large one.
func benchCluster(n int) string {
	var b strings.Builder
	b.WriteString("namespace payments\n")
	for i := range n {
		fmt.Fprintf(&b, "service payments/service-%d 10.96.%d.%d fd00::%x http:tcp:80\n", i, i/250, i%250, i+1)
	}
	b.WriteString("service payments/only-4 10.96.200.1\nservice payments/db\nslice payments/db 10.244.0.1 10.244.0.2 10.244.0.3")
	b.WriteString(largeService("payments/large", 1000) + "\nloaded")
	return b.String()
}

// benchRecords are the records of the upstream server for benchQueries.
var benchRecords = "www.example. 86400 A 192.0.2.1\n" + strings.Repeat("large.example. 86400 A 192.0.2.1\n", 3000)

// benchQueries returns the most frequent kinds of queries, and lets s cache the replies.
func benchQueries(t testing.TB, s *Server) map[string][]byte {
	queries := map[string][]byte{}
	for kind, name := range map[string]string{
		"A":        "service-57.payments.svc.cluster.local.",
		"headless": "db.payments.svc.cluster.local.",
		"NXDOMAIN": "www.example.payments.svc.cluster.local.",
		"NODATA":   "svc.cluster.local.",
		"cache":    "www.example.",
		"cut":      "large.example.",
		"SRV":      "_a._tcp.large.payments.svc.cluster.local.",
		"large":    "large.payments.svc.cluster.local.",
	} {
		qtype := dns.TypeA
		if kind == "SRV" {
			qtype = dns.TypeSRV
		}
		packet := mustPack(t, new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, false))
		queries[kind] = packet
		handlePacket(context.Background(), s, packet, overUDP, podAddr)
	}
	return queries
}

// BenchmarkAnswer measures handle, without sockets.
func BenchmarkAnswer(b *testing.B) {
	s := newServer(b, benchCluster(10_000), Config{Upstream: parseRecords(b, benchRecords).exchange})
	queries := benchQueries(b, s)
	for what, packet := range queries {
		b.Run("what="+what, func(b *testing.B) {
			buf := make([]byte, 0, maxUDP)
			q := &query{client: podAddr, received: time.Now()}
			b.ReportAllocs()
			for b.Loop() {
				r, _ := s.handle(b.Context(), q, packet, buf)
				s.metrics.observe(overUDP, r, 0)
			}
		})
	}
	b.Run("what=log", func(b *testing.B) {
		q, l, lines := &query{client: podAddr, received: time.Now()}, &QueryLog{Classes: LogAll}, make([]byte, 0, 512)
		r, _ := s.handle(b.Context(), q, queries["A"], nil)
		for b.Loop() {
			lines = l.append(lines[:0], q, &r)
		}
	})
}
