// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// lies are replies that are none, or not to the query.
var lies = map[string]func(t *testing.T, q *dns.Msg) dnstest.Message{
	"wrong ID":            lying(func(m *dns.Msg) { m.Id++ }),
	"wrong name":          lying(func(m *dns.Msg) { m.Question[0].Name = "wwx.example." }),
	"wrong type":          lying(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
	"wrong class":         lying(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
	"two questions":       lying(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
	"no question":         lying(func(m *dns.Msg) { m.Question = nil }),
	"not a reply":         lying(func(m *dns.Msg) { m.Response = false }),
	"another operation":   lying(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
	"wrong and truncated": lying(func(m *dns.Msg) { m.Question[0].Name = "wwx.example."; m.Truncated = true }),
	"from another port": func(t *testing.T, q *dns.Msg) dnstest.Message {
		return dnstest.Message{Wire: wire(t, says(t, q, lie)), OtherPort: true}
	},
	"empty": func(*testing.T, *dns.Msg) dnstest.Message { return dnstest.Message{} },
	"the header alone": func(t *testing.T, q *dns.Msg) dnstest.Message {
		return dnstest.Message{Wire: wire(t, says(t, q, lie))[:headerLen]}
	},
	"cut in the question": func(t *testing.T, q *dns.Msg) dnstest.Message {
		return dnstest.Message{Wire: wire(t, says(t, q, lie))[:headerLen+5]}
	},
	"cut in the answer": func(t *testing.T, q *dns.Msg) dnstest.Message {
		w := wire(t, says(t, q, lie))
		return dnstest.Message{Wire: w[:len(w)-2]}
	},
	"more records than there": func(t *testing.T, q *dns.Msg) dnstest.Message {
		w := wire(t, says(t, q, lie))
		w[6] = 0xFF
		return dnstest.Message{Wire: w}
	},
	"a name that points at itself": func(t *testing.T, q *dns.Msg) dnstest.Message {
		w := wire(t, says(t, q))
		w[7] = 1
		return dnstest.Message{Wire: append(w, 0xC0, byte(len(w)), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)}
	},
	"names that point at each other": func(t *testing.T, q *dns.Msg) dnstest.Message {
		w := wire(t, says(t, q))
		w[7] = 1
		here := byte(len(w))
		return dnstest.Message{Wire: append(w, 1, 'a', 0xC0, here+4, 1, 'b', 0xC0, here, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)}
	},
}

func lying(change func(*dns.Msg)) func(*testing.T, *dns.Msg) dnstest.Message {
	return func(t *testing.T, q *dns.Msg) dnstest.Message {
		m := says(t, q, lie)
		change(m)
		return dnstest.Message{Wire: wire(t, m)}
	}
}

// addresses is what a client makes of a reply: the addresses, or else the rcode.
func addresses(m *dns.Msg) string {
	var list []string
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			list = append(list, a.A.String())
		}
	}
	if m.Truncated {
		list = append(list, "TC")
	}
	if len(list) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(list, " ")
}

// TestLyingUpstream: whoever lies first does not win, and where nobody says the truth the
// client has SERVFAIL when the client's Timeout is over. The next client gets no lie from
// the cache, and names of the cluster are answered.
func TestLyingUpstream(t *testing.T) {
	for what, tell := range lies {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			corrected := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
				if network == "tcp" { // where nobody but the server can send
					return []dnstest.Message{{Wire: wire(t, says(t, q, truth))}}
				}
				return []dnstest.Message{tell(t, q), {Wire: wire(t, says(t, q, truth))}}
			})
			alone := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return []dnstest.Message{tell(t, q)} })
			for s, want := range map[*testServer]string{believing(t, patience, corrected.Addr): truth, believing(t, oneTry, alone.Addr): "SERVFAIL"} {
				s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
					for range 2 {
						if got := addresses(ask("www.example. A")); got != want {
							t.Errorf("got %s, want %s", got, want)
						}
					}
					if got := addresses(ask("web.default.svc.cluster.local. A")); got != "10.96.0.7" {
						t.Errorf("the cluster's name: %s", got)
					}
				})
			}
		})
	}
}

// TestGuessing: a flood of wrong IDs ends the query over UDP after 20 of them; TCP, where
// it is out of reach, decides.
func TestGuessing(t *testing.T) {
	for _, tt := range []struct {
		works bool
		try   time.Duration
		want  string
	}{{true, patience, truth}, {false, oneTry, "SERVFAIL"}} {
		l := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
			switch {
			case network == "udp":
				return slices.Repeat([]dnstest.Message{lies["wrong ID"](t, q)}, 2000)
			case tt.works:
				return []dnstest.Message{{Wire: wire(t, says(t, q, truth))}}
			}
			return nil
		})
		s := believing(t, tt.try, l.Addr)
		if got := addresses(s.exchange(t, "udp", asking("www.example. A", true))); got != tt.want || l.OverTCP.Load() == 0 {
			t.Errorf("got %s after %d queries over TCP, want %s", got, l.OverTCP.Load(), tt.want)
		}
	}
}

// TestSilentUpstream: a server that is dead, refuses or is too slow costs the client the
// Timeout at most, and after that the first of equal queries only; one that is slow, but
// not too slow, is waited for. Another server makes up for all of them.
func TestSilentUpstream(t *testing.T) {
	closed := func(t *testing.T) netip.AddrPort { // nobody is there: ICMP port unreachable
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	late := func(after time.Duration) func(t *testing.T) netip.AddrPort {
		return func(t *testing.T) netip.AddrPort {
			return dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
				return []dnstest.Message{{Wire: wire(t, says(t, q, truth)), After: after}}
			}).Addr
		}
	}
	dead := func(t *testing.T) netip.AddrPort {
		return dnstest.Start(t, func(string, *dns.Msg) []dnstest.Message { return nil }).Addr
	}
	for _, tt := range []struct {
		what string
		addr func(*testing.T) netip.AddrPort
		try  time.Duration
		want string
	}{
		{"dead", dead, oneTry, "SERVFAIL"},
		{"refusing", closed, oneTry, "SERVFAIL"},
		{"slow", late(time.Second), patience, truth},
		{"too slow", late(3 * oneTry), oneTry, "SERVFAIL"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := believing(t, tt.try, tt.addr(t))
			for range 2 {
				reply := s.exchange(t, "udp", asking("www.example. A", true))
				if got := addresses(reply); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
			// The first has asked, the second was answered from the cache, a failure too.
			if up, kept := s.count(t, "dnsconfigurer_dns_queries_total", "source=upstream"), s.count(t, "dnsconfigurer_dns_queries_total", "source=cache"); up != 1 || kept != 1 {
				t.Errorf("%d answers of upstream, %d of the cache", up, kept)
			}
			good := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
				return []dnstest.Message{{Wire: wire(t, says(t, q, truth))}}
			})
			s = believing(t, oneTry, tt.addr(t), good.Addr)
			for i := range 5 {
				if got := addresses(s.exchange(t, "udp", asking(fmt.Sprintf("www%d.example. A", i), false))); got != truth {
					t.Errorf("with a second server: %s", got)
				}
			}
		})
	}
}

// TestLongReplies: what upstream says in any length comes whole over TCP, and what cannot
// be had whole is never passed off as whole: TC over UDP, SERVFAIL over TCP.
func TestLongReplies(t *testing.T) {
	many := func(q *dns.Msg, n int) *dns.Msg { return says(t, q, slices.Repeat([]string{truth}, n)...) }
	tc := func(q *dns.Msg) []dnstest.Message {
		m := says(t, q)
		m.Truncated = true
		return []dnstest.Message{{Wire: wire(t, m)}}
	}
	garbage := func(q *dns.Msg) []dnstest.Message {
		m := many(q, 40)
		m.Truncated = true
		return []dnstest.Message{{Wire: wire(t, m)[:500]}}
	}
	whole := func(q *dns.Msg) []dnstest.Message { return []dnstest.Message{{Wire: wire(t, many(q, 100))}} }
	silence := func(*dns.Msg) []dnstest.Message { return nil }
	for _, tt := range []struct {
		what             string
		overUDP, overTCP func(*dns.Msg) []dnstest.Message
		udp, tcp         string // for our client
	}{
		{"TC, then TCP", tc, whole, "TC", "100"},
		{"TC in the middle of a record, then TCP", garbage, whole, "TC", "100"},
		{"longer than any UDP reply, then TCP", func(q *dns.Msg) []dnstest.Message { return []dnstest.Message{{Wire: wire(t, many(q, 1000))}} }, whole, "TC", "100"},
		{"longer than we said, in one packet", whole, silence, "TC", "100"},
		{"TC over TCP too", tc, tc, "TC", "SERVFAIL"},
		{"TC, and no TCP", tc, silence, "TC", "SERVFAIL"},
		{"TC in the middle of a record, and no TCP", garbage, silence, "SERVFAIL", "SERVFAIL"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			s := believing(t, oneTry, dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
				if network == "udp" {
					return tt.overUDP(q)
				}
				return tt.overTCP(q)
			}).Addr)
			for network, want := range map[string]string{"udp": tt.udp, "tcp": tt.tcp} {
				for _, edns := range []bool{false, true} {
					reply := s.exchange(t, network, asking("www.example. A", edns))
					got := dns.RcodeToString[reply.Rcode]
					switch {
					case reply.Truncated:
						got = "TC"
					case reply.Rcode == dns.RcodeSuccess:
						got = fmt.Sprint(len(reply.Answer))
					}
					if got != want {
						t.Errorf("over %s: %s, want %s", network, got, want)
					}
				}
			}
		})
	}
}

// TestForeignRecords: what a reply says of other names concerns nobody.
func TestForeignRecords(t *testing.T) {
	foreign := parseRecords(t, "web.default.svc.cluster.local. 60 IN A "+lie+"\nother.example. 60 IN A "+lie+"\n7.0.96.10.in-addr.arpa. 60 IN PTR bank.example.")
	l := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
		m := says(t, q, truth)
		if q.Question[0].Name == "www.example." {
			m.Answer = append(m.Answer, foreign...)
			m.Ns, m.Extra = foreign, foreign
		}
		return []dnstest.Message{{Wire: wire(t, m)}}
	})
	s := believing(t, patience, l.Addr)
	s.everyTransport(t, func(t *testing.T, _ bool, ask func(string) *dns.Msg) {
		ask("www.example. A")
		for question, want := range map[string]string{"web.default.svc.cluster.local. A": "10.96.0.7", "other.example. A": truth} {
			if got := addresses(ask(question)); got != want {
				t.Errorf("%s: %s, want %s", question, got, want)
			}
		}
		if ptr := ask("7.0.96.10.in-addr.arpa. PTR"); len(ptr.Answer) != 1 || ptr.Answer[0].(*dns.PTR).Ptr != "web.default.svc.cluster.local." {
			t.Errorf("%s", text(ptr))
		}
	})
}

// TestUpstreamHangs: queries that wait for others are 4096 at most, also when all of them
// are for one name and count as one for the client of upstream. One more gets SERVFAIL
// at once, and names of the cluster are answered.
func TestUpstreamHangs(t *testing.T) {
	var waiting atomic.Int32
	release := make(chan struct{})
	s := serve(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded", func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
		waiting.Add(1)
		<-release
		return says(t, q, truth), nil
	})
	defer close(release)
	flood, err := net.Dial("udp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	query := wire(t, asking("www.example. A", true))
	refused := func() int {
		return s.count(t, "dnsconfigurer_dns_queries_total", "source=server", "rcode=SERVFAIL")
	}
	for deadline := time.Now().Add(time.Minute); refused() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d queries wait, and none was refused", waiting.Load())
		}
		for range 100 {
			flood.Write(query)
		}
	}
	if waiting.Load() != maxForwarded {
		t.Errorf("%d queries wait for upstream, want %d", waiting.Load(), maxForwarded)
	}
	s.everyTransport(t, func(t *testing.T, edns bool, ask func(string) *dns.Msg) {
		if got := addresses(ask("web.default.svc.cluster.local. A")); got != "10.96.0.7" {
			t.Errorf("the cluster's name: %s", got)
		}
		reply := ask("other.example. A")
		if reply.Rcode != dns.RcodeServerFailure || edns && why(reply) != int(dns.ExtendedErrorCodeOther) {
			t.Errorf("one too many: %v", reply)
		}
	})
	if kept := s.cache.Stats().Entries; kept != 0 {
		t.Errorf("%d failures of nobody are in the cache", kept)
	}
}
