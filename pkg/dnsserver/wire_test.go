// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
)

// bare is a server without sockets.
func bare(t testing.TB, cluster string, upstream Exchange) *Server {
	t.Helper()
	return newServer(t, cluster, Config{Upstream: upstream})
}

// variants returns queries for one question: each combination of the header's flags with what
// the additional section may contain, another spelling, and another class.
func variants(name string, qtype uint16) []*dns.Msg {
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
			m.SetEdns0(1232, false).IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: autopath.DefaultOption, Data: []byte("default.svc.cluster.local,example")}}
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
	shouted := new(dns.Msg).SetQuestion(strings.ToUpper(name), qtype)
	other := new(dns.Msg).SetQuestion(name, qtype)
	other.Question[0].Qclass = dns.ClassCHAOS
	return append(list, shouted, other)
}

// handled returns the reply to a packet, after waiting for other servers if necessary. It
// counts the reply as the transports do.
func handled(ctx context.Context, s *Server, packet []byte, via transport, client netip.Addr) []byte {
	q := &query{via: via, client: client, received: time.Now()}
	r, wait := s.handle(ctx, q, packet, nil)
	if wait != nil {
		r = wait(ctx)
	}
	s.metrics.observeSent(q, r)
	return r.wire
}

// handledAtOnce returns the reply to a packet if no other server has to be asked, and whether
// it was written in wire form.
func handledAtOnce(t testing.TB, s *Server, packet []byte, at time.Time) (wire []byte, inWire bool) {
	t.Helper()
	var buf [maxUDP]byte
	q := &query{via: overUDP, client: pod(), received: at}
	r, _ := s.handle(t.Context(), q, packet, buf[:0])
	if r.wire != nil && !r.packed && &r.wire[0] != &buf[0] {
		t.Errorf("%x: the reply is not in its buffer", packet)
	}
	return r.wire, r.wire != nil && !r.packed
}

// packedReply is the reply to a packet made from records, whatever form the source prefers.
func packedReply(t testing.TB, s *Server, packet []byte, at time.Time) []byte {
	t.Helper()
	q := &query{via: overUDP, client: pod(), received: at}
	rcode, isQuery := q.parse(packet)
	if !isQuery || rcode != dns.RcodeSuccess {
		return q.reply(answer{source: fromServer, rcode: rcode}, nil).wire
	}
	r, ok := s.zoneRecords(t.Context(), q, s.cfg.Zone.Snapshot())
	if _, below := q.name.Within(s.search.Suffix); below || !ok {
		r = s.forward(t.Context(), q, nil)
	}
	return q.reply(r.await(t.Context()).withRecords(), nil).wire
}

// compare answers a packet, and reports whether the answer was in wire form. If so, it is
// the same as with records, except for the order of addresses, and for the compression of
// names, so that the zone's name in the SOA record may be spelled as in the question.
func compare(t testing.TB, s *Server, packet []byte) bool {
	t.Helper()
	now := time.Now()
	wire, inWire := handledAtOnce(t, s, packet, now)
	if !inWire {
		return false
	}
	if got, want := shown(t, wire), shown(t, packedReply(t, s, packet, now)); got != want {
		t.Errorf("%x\nin wire form:\n%s\nwith records:\n%s", packet, got, want)
	}
	if len(wire) > maxUDP {
		t.Errorf("%x: %d octets", packet, len(wire))
	}
	return true
}

func shown(t testing.TB, reply []byte) string {
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
	return fmt.Sprintf("%+v %v %s\n%s", m.MsgHdr, m.Question, options, text(m))
}

// questionTypes are types of all kinds: answered, denied, minimal, rejected.
var questionTypes = []uint16{0, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypePTR, dns.TypeSOA, dns.TypeNS, dns.TypeCNAME,
	dns.TypeHINFO, dns.TypeOPT, dns.TypeHTTPS, dns.TypeAXFR, dns.TypeANY}

// TestWire_AgreesWithRecords puts every question of the goldens, with all types and in all
// variants, to a server whose cache has the replies.
func TestWire_AgreesWithRecords(t *testing.T) {
	queries, inWire := 0, map[string]int{}
	for _, story := range readStories(t, "testdata") {
		if strings.HasPrefix(story.name, "autopath") && story.name != "autopath-names" {
			continue // expansions are never in wire form
		}
		t.Run(story.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := bare(t, story.cluster, story.upstream.exchange)
				for _, question := range story.questions {
					name, _, _ := strings.Cut(question.Name, " ")
					for _, qtype := range questionTypes {
						for _, m := range variants(name, qtype) {
							packet, err := m.Pack()
							if err != nil {
								t.Fatal(err)
							}
							queries++
							handled(t.Context(), s, packet, overUDP, pod())
							if compare(t, s, packet) {
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
	t.Logf("of %d queries, in wire form: %v", queries, inWire)
	if inWire[fromZone.String()] == 0 || inWire[fromCache.String()] == 0 {
		t.Error("a source has no answer in wire form")
	}
}

// TestWire_Size has replies of all lengths around the limits of all clients: those that fit
// are in wire form, the others are truncated.
func TestWire_Size(t *testing.T) {
	const most = 100
	cluster := "namespace default"
	for n := range most {
		cluster += fmt.Sprintf("\nservice default/s%d\nslice default/s%d", n, n)
		for i := range n + 1 {
			cluster += fmt.Sprintf(" 10.244.%d.%d fd00::%x:%x", n, i, n, i)
		}
	}
	s := bare(t, cluster+"\nloaded", nil)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		for _, size := range []uint16{0, 512, 800, 1231, 1232} {
			fits := 0
			for n := range most {
				m := new(dns.Msg).SetQuestion(fmt.Sprintf("s%d.default.svc.cluster.local.", n), qtype)
				if size != 0 {
					m.SetEdns0(size, false)
				}
				packet, err := m.Pack()
				if err != nil {
					t.Fatal(err)
				}
				whole := new(dns.Msg)
				if err := whole.Unpack(handled(t.Context(), s, packet, overUDP, pod())); err != nil {
					t.Fatal(err)
				}
				if compare(t, s, packet) == whole.Truncated {
					t.Errorf("%d addresses for %d octets: truncated %t", n+1, size, whole.Truncated)
				}
				if !whole.Truncated {
					fits = n + 1
				}
			}
			if fits == 0 || fits == most {
				t.Errorf("size %d: up to %d addresses fit: the limit was not met", size, fits)
			}
		}
	}
}

// TestWire_CacheStates follows an answer through its life in the cache: it is served in wire
// form while it is fresh, refreshed near its end if it is popular, and waited for when it is
// stale.
func TestWire_CacheStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refreshes atomic.Int32
		upstream := parseRecords(t, "www.example. 100 A 192.0.2.1").exchange
		s := bare(t, "loaded", func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			refreshes.Add(1)
			return upstream(ctx, q)
		})
		packet, err := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		state := func(at time.Duration) string {
			before := refreshes.Load()
			wire, inWire := handledAtOnce(t, s, packet, time.Now().Add(at))
			synctest.Wait()
			got := "waits"
			if inWire {
				m := new(dns.Msg)
				if err := m.Unpack(wire); err != nil {
					t.Fatal(err)
				}
				got = fmt.Sprint(m.Answer[0].Header().Ttl)
			}
			if refreshes.Load() > before {
				got += " refresh"
			}
			return got
		}
		if got := state(0); got != "waits" {
			t.Errorf("nothing is cached: %s", got)
		}
		handled(t.Context(), s, packet, overUDP, pod())
		var got []string
		for _, at := range []int{0, 40, 89, 100, 120} {
			got = append(got, state(time.Duration(at)*time.Second))
		}
		if want := []string{"100", "60", "11", "waits", "waits"}; !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		time.Sleep(91 * time.Second)
		if got := state(0); got != "9 refresh" {
			t.Errorf("near the end: %s", got)
		}
		if got := state(0); got != "100" {
			t.Errorf("after the refresh: %s", got)
		}
	})
}

// TestHandle_NoAllocations has the most frequent queries.
func TestHandle_NoAllocations(t *testing.T) {
	s := bare(t, benchCluster(100), parseRecords(t, "www.example. 100 A 192.0.2.1").exchange)
	buf := make([]byte, 0, maxUDP)
	q := &query{client: pod()}
	for what, packet := range benchQueries(t, s) {
		t.Run(what, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				q.received = time.Now()
				r, _ := s.handle(t.Context(), q, packet, buf)
				if r.wire == nil {
					t.Fatal("no reply")
				}
				s.metrics.observeSent(q, r)
			})
			if allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

// FuzzWire: an answer in wire form is the one with records.
func FuzzWire(f *testing.F) {
	for _, name := range []string{"web.default.svc.cluster.local.", "nothing.default.svc.cluster.local.", "www.example.", "9.9.96.10.in-addr.arpa.", "cluster.local."} {
		for _, m := range variants(name, dns.TypeA)[:12] {
			packet, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packet)
		}
	}
	s := bare(f, "namespace default\nservice default/web 10.96.0.7 fd00::7 http:tcp:80\nservice default/out external=www.example.\nloaded",
		parseRecords(f, "www.example. 86400 A 192.0.2.1").exchange)
	f.Fuzz(func(t *testing.T, packet []byte) { compare(t, s, packet) })
}

// benchCluster has n Services with a cluster IP.
func benchCluster(n int) string {
	var b strings.Builder
	b.WriteString("namespace payments\n")
	for i := range n {
		fmt.Fprintf(&b, "service payments/service-%d 10.96.%d.%d fd00::%x http:tcp:80\n", i, i/250, i%250, i+1)
	}
	b.WriteString("service payments/only-4 10.96.200.1\nservice payments/db\nslice payments/db 10.244.0.1 10.244.0.2 10.244.0.3\nloaded")
	return b.String()
}

func benchQueries(t testing.TB, s *Server) map[string][]byte {
	queries := map[string][]byte{}
	for what, name := range map[string]string{
		"A":        "service-57.payments.svc.cluster.local.",
		"headless": "db.payments.svc.cluster.local.",
		"NXDOMAIN": "www.example.payments.svc.cluster.local.",
		"NODATA":   "svc.cluster.local.",
		"cache":    "www.example.",
	} {
		packet, err := new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false).Pack()
		if err != nil {
			t.Fatal(err)
		}
		queries[what] = packet
		handled(context.Background(), s, packet, overUDP, pod())
	}
	return queries
}

func BenchmarkAnswer(b *testing.B) {
	s := bare(b, benchCluster(10_000), parseRecords(b, "www.example. 86400 A 192.0.2.1").exchange)
	queries := benchQueries(b, s)
	for what, packet := range queries {
		b.Run("what="+what, func(b *testing.B) {
			buf := make([]byte, 0, maxUDP)
			q := &query{client: pod(), received: time.Now()}
			b.ReportAllocs()
			for b.Loop() {
				r, _ := s.handle(b.Context(), q, packet, buf)
				s.metrics.observe(overUDP, r, 0)
			}
		})
	}
}
