// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
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

// variants are the ways to ask one question: each combination of the header's bits
// with what the additional section may hold, and one in other letters.
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

// compare answers a packet both ways, the plain way first, and tells whether the quick
// way had an answer. Two answers differ in the order of addresses and in how names are
// compressed, so that the zone's in the SOA record may be spelled as in the question;
// in nothing else.
func compare(t testing.TB, s *Server, k *quick, packet []byte) bool {
	t.Helper()
	plain := s.handle(t.Context(), packet, overUDP, pod())
	var room [maxUDP]byte
	r := k.answer(packet, room[:0], time.Now())
	if r.dropped {
		t.Fatalf("%x panicked", packet)
	}
	if r.reply == nil {
		return false
	}
	if got, want := shown(t, r.reply), shown(t, plain); got != want {
		t.Errorf("%x\nthe quick way:\n%s\nthe plain way:\n%s", packet, got, want)
	}
	if len(r.reply) > maxUDP || &r.reply[0] != &room[0] {
		t.Errorf("%x: the reply has left its room", packet)
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

// TestQuickAgrees puts every question of the goldens, of all types, in all variants,
// to both ways.
func TestQuickAgrees(t *testing.T) {
	types := []uint16{0, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypePTR, dns.TypeSOA, dns.TypeNS, dns.TypeCNAME,
		dns.TypeHINFO, dns.TypeOPT, dns.TypeHTTPS, dns.TypeAXFR, dns.TypeANY}
	asked, quickly := 0, [len(tallied)]int{}
	for _, story := range readStories(t, "testdata") {
		if strings.HasPrefix(story.name, "autopath") && story.name != "autopath-names" {
			continue // of which the quick way leaves all alone, as it does the names
		}
		t.Run(story.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := bare(t, story.cluster, story.upstream.exchange)
				for _, question := range story.questions {
					k := newQuick(s)
					name, _, _ := strings.Cut(question.Name, " ")
					for _, qtype := range types {
						for _, m := range variants(name, qtype) {
							packet, err := m.Pack()
							if err != nil {
								t.Fatal(err)
							}
							asked++
							compare(t, s, k, packet)
						}
					}
					for i := range quickly {
						for _, n := range k.tally.sources[i].answers {
							quickly[i] += n
						}
					}
				}
			})
		})
	}
	t.Logf("of %d queries the quick way answered %d from the zone, %d from the cache", asked, quickly[tallyZone], quickly[tallyCache])
	if quickly[tallyZone] == 0 || quickly[tallyCache] == 0 {
		t.Error("the quick way has not been tried")
	}
}

// TestQuickSize has replies of all lengths about the limits of all clients: the quick
// way answers what fits, and only that.
func TestQuickSize(t *testing.T) {
	const most = 100
	cluster := "namespace default"
	for n := range most {
		cluster += fmt.Sprintf("\nservice default/s%d\nslice default/s%d", n, n)
		for i := range n + 1 {
			cluster += fmt.Sprintf(" 10.244.%d.%d fd00::%x:%x", n, i, n, i)
		}
	}
	s := bare(t, cluster+"\nloaded", nil)
	k := newQuick(s)
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
				if err := whole.Unpack(s.handle(t.Context(), packet, overUDP, pod())); err != nil {
					t.Fatal(err)
				}
				if compare(t, s, k, packet) == whole.Truncated {
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

// TestQuickCache follows an answer through its life in the cache: the quick way gives
// it while it is fresh, has it refreshed near its end if it is popular, and leaves it
// to the plain way when it is stale.
func TestQuickCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t, "loaded", parseRecords(t, "www.example. 100 A 192.0.2.1").exchange)
		k := newQuick(s)
		packet, err := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		state := func(at time.Duration) string {
			r := k.answer(packet, make([]byte, 0, maxUDP), time.Now().Add(at))
			answered := "plain"
			if r.reply != nil {
				m := new(dns.Msg)
				if err := m.Unpack(r.reply); err != nil {
					t.Fatal(err)
				}
				answered = fmt.Sprint(m.Answer[0].Header().Ttl)
			}
			if r.refresh {
				answered += " refresh"
			}
			return answered
		}
		if got := state(0); got != "plain" {
			t.Errorf("nothing is cached: %s", got)
		}
		s.handle(t.Context(), packet, overUDP, pod())
		var got []string
		for _, at := range []int{0, 40, 89, 91, 92, 100, 120} {
			got = append(got, state(time.Duration(at)*time.Second))
		}
		if want := []string{"100", "60", "11", "9 refresh", "8", "plain", "plain"}; !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		time.Sleep(50 * time.Second)
		s.refresh(t.Context(), packet)
		if got := state(0); got != "100" {
			t.Errorf("after the refresh: %s", got)
		}
	})
}

// TestQuickTakesNoMemory: what is asked most leaves no garbage.
func TestQuickTakesNoMemory(t *testing.T) {
	s := bare(t, benchCluster(100), parseRecords(t, "www.example. 100 A 192.0.2.1").exchange)
	k := newQuick(s)
	room := make([]byte, 0, maxUDP)
	for what, packet := range benchQueries(t, s) {
		t.Run(what, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				if r := k.answer(packet, room, time.Now()); r.reply == nil {
					t.Fatal("no reply")
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

// FuzzQuick: the quick way answers as the plain way does, or not at all.
func FuzzQuick(f *testing.F) {
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
	k := newQuick(s)
	f.Fuzz(func(t *testing.T, packet []byte) {
		if !bytes.Contains(packet, []byte("example")) { // its TTL may change between the two
			compare(t, s, k, packet)
		}
	})
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
		s.handle(context.Background(), packet, overUDP, pod())
	}
	return queries
}

func BenchmarkAnswer(b *testing.B) {
	s := bare(b, benchCluster(10_000), parseRecords(b, "www.example. 86400 A 192.0.2.1").exchange)
	queries := benchQueries(b, s)
	for what, packet := range queries {
		b.Run("way=quick/what="+what, func(b *testing.B) {
			k := newQuick(s)
			room := make([]byte, 0, maxUDP)
			b.ReportAllocs()
			for b.Loop() {
				k.answer(packet, room, time.Now())
			}
		})
		b.Run("way=plain/what="+what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.handle(b.Context(), packet, overUDP, pod())
			}
		})
	}
}
