// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// The server receives the question in lower case and the flags of the client, this
// server's EDNS size, and only the configured options.
func TestExchange_ForwardedQuery(t *testing.T) {
	noLeaks(t)
	const forwarded = 65313
	arrived := make(chan *dns.Msg, 1)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- query
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{Options: []uint16{forwarded}}, s)
	for _, flags := range []struct{ rd, cd, do, edns bool }{{}, {rd: true}, {cd: true, edns: true}, {rd: true, do: true, edns: true}} {
		query := ask("WWW.Example.com.")
		query.RecursionDesired, query.CheckingDisabled = flags.rd, flags.cd
		if flags.edns {
			query.SetEdns0(512, flags.do)
			query.IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
				&dns.EDNS0_LOCAL{Code: forwarded, Data: []byte("ns.svc.cluster.local")},
				&dns.EDNS0_LOCAL{Code: forwarded + 1, Data: []byte("x")},
			}
		}
		got := must.Get(c.Exchange(t.Context(), query))(t)
		sent := <-arrived
		opt := sent.IsEdns0()
		if sent.RecursionDesired != flags.rd || sent.CheckingDisabled != flags.cd || !sent.AuthenticatedData || opt.Do() != flags.do ||
			opt.UDPSize() != 1232 || sent.Question[0].Name != "www.example.com." {
			t.Errorf("%+v: sent %v", flags, sent)
		}
		options := slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == forwarded })
		if options != flags.edns || len(opt.Option) > 1 {
			t.Errorf("%+v: sent options %v", flags, opt.Option)
		}
		if got.Id != query.Id || got.Question[0] != query.Question[0] || got.RecursionDesired != flags.rd ||
			got.CheckingDisabled != flags.cd {
			t.Errorf("%+v: got %v", flags, got)
		}
	}
}

// A reply that does not match the query is ignored.
func TestExchange_ForgedReply(t *testing.T) {
	noLeaks(t)
	change := func(f func(*dns.Msg)) func(*dns.Msg) []byte {
		return func(query *dns.Msg) []byte {
			m := reply(query, 0, "203.0.113.66")
			f(m)
			return pack(t, m)
		}
	}
	forged := map[string]func(*dns.Msg) []byte{
		"wrong ID":            change(func(m *dns.Msg) { m.Id++ }),
		"wrong name":          change(func(m *dns.Msg) { m.Question[0].Name = "wwx.example.com." }),
		"wrong type":          change(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
		"wrong class":         change(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		"two questions":       change(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"no question":         change(func(m *dns.Msg) { m.Question = nil }),
		"not a reply":         change(func(m *dns.Msg) { m.Response = false }),
		"a notification":      change(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }),
		"wrong and truncated": change(func(m *dns.Msg) { m.Id++; m.Truncated = true }),
		"nothing":             func(*dns.Msg) []byte { return nil },
		"one octet":           func(*dns.Msg) []byte { return []byte{0} },
		"the header only":     func(q *dns.Msg) []byte { return good(t, q)[:12] },
		"cut in the question": func(q *dns.Msg) []byte { return good(t, q)[:17] },
		"from another port":   change(func(*dns.Msg) {}),
	}
	for name, f := range forged {
		t.Run(name, func(t *testing.T) {
			message := func(q *dns.Msg) dnstest.Message {
				return dnstest.Message{Wire: f(q), OtherPort: name == "from another port"}
			}
			s := newFake(dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
				return []dnstest.Message{message(q), {Wire: good(t, q)}}
			}))
			c := newClient(t, upstream.Config{}, s)
			expect(t, c, "192.0.2.1")
			alone := newFake(dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return []dnstest.Message{message(q)} }))
			c = newClient(t, upstream.Config{TryTimeout: short / 3, Timeout: short}, alone)
			expect(t, c, "error: no upstream server replied")
		})
	}
}

// A reply whose content cannot be parsed ends the query at once: over UDP and TCP, without a
// second try, although a second server would reply, and without a failure of the server. In the
// bubble the first server is never too slow.
func TestExchange_MalformedReply(t *testing.T) {
	noLeaks(t)
	malformed := map[string]func(*dns.Msg) []byte{
		"cut after a record": func(q *dns.Msg) []byte { m := good(t, q); m[7]++; return m },
		"no data": func(q *dns.Msg) []byte {
			m := pack(t, new(dns.Msg).SetReply(q))
			m[7] = 1
			return append(m, 0xC0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 0) // a CNAME record
		},
		"cut in a record": func(q *dns.Msg) []byte { m := good(t, q); return m[:len(m)-20] },
		"a name that points at itself": func(q *dns.Msg) []byte {
			m := pack(t, new(dns.Msg).SetReply(q))
			m[7] = 1 // one answer, whose owner is at offset ...
			return append(m, 0xC0, byte(len(m)), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)
		},
	}
	for name, f := range malformed {
		for _, tcp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TCP %t", name, tcp), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { checkMalformedReply(t, f, tcp) })
			})
		}
	}
}

func checkMalformedReply(t *testing.T, malformed func(*dns.Msg) []byte, tcp bool) {
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if query.Question[0].Name == "www.example.com." {
			return [][]byte{malformed(query)}
		}
		return [][]byte{good(t, query)}
	})
	s.TCP = tcp
	second := serve(t, always(t, dns.RcodeSuccess, "192.0.2.2"))
	registry := prometheus.NewPedanticRegistry()
	c := newClient(t, upstream.Config{Metrics: upstream.NewMetrics(registry)}, s, second)
	defer run(t, c)()
	for range 3 {
		if _, err := c.Exchange(t.Context(), ask("www.example.com.")); !errors.Is(err, upstream.ErrMalformed) {
			t.Errorf("got %v, want %v", err, upstream.ErrMalformed)
		}
	}
	if got := addresses(t, c, "other.example.com."); got != "192.0.2.1" {
		t.Errorf("another name: got %s, want the first server's answer", got)
	}
	if n := s.overUDP.Load() + s.overTCP.Load(); n != 4 || second.overUDP.Load() != 0 || s.conns.Load() > 1 {
		t.Errorf("%d queries, %d to the second server, %d connections; want 4, 0 and at most 1",
			n, second.overUDP.Load(), s.conns.Load())
	}
	if c.Status()[0].Down {
		t.Error("the server counts as down")
	}
}

// After many forged replies the query is repeated over TCP.
func TestExchange_ManyForgedReplies(t *testing.T) {
	s := serve(t, func(network string, query *dns.Msg) [][]byte {
		if network == "tcp" {
			return [][]byte{good(t, query)}
		}
		guess := reply(query, 0, "203.0.113.66")
		guess.Id++
		return slices.Repeat([][]byte{pack(t, guess)}, 20)
	})
	expect(t, newClient(t, upstream.Config{}, s), "192.0.2.1")
	if n := s.overTCP.Load(); n != 1 {
		t.Errorf("%d queries over TCP", n)
	}
	// Without TCP the query fails: no guess is accepted, however many there are.
	s = newFake(dnstest.StartStreams(t, func(_ string, q *dns.Msg) []dnstest.Message {
		guess := reply(q, 0, "203.0.113.66")
		guess.Id++
		return slices.Repeat([]dnstest.Message{{Wire: pack(t, guess)}}, 2000)
	}, func(net.Conn) {}))
	expect(t, newClient(t, upstream.Config{}, s), "error: no upstream server replied")
}

// A query over 1232 octets uses TCP, as does every query to a server with TCP only.
func TestExchange_LongQuery(t *testing.T) {
	const option = 65313
	queryWith := func(length int) *dns.Msg {
		q := ask("www.example.").SetEdns0(1232, false)
		q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: option, Data: make([]byte, length)}}
		return q
	}
	overhead := queryWith(0).Len()
	for _, tt := range []struct {
		tcpOnly          bool
		length           int // of the query
		wantUDP, wantTCP int64
	}{{false, 1232, 1, 0}, {false, 1233, 0, 1}, {true, 100, 0, 1}} {
		s := serve(t, always(t, dns.RcodeSuccess, "192.0.2.1"))
		s.TCP = tt.tcpOnly
		c := newClient(t, upstream.Config{Options: []uint16{option}}, s)
		m, err := c.Exchange(t.Context(), queryWith(tt.length-overhead))
		if err != nil || len(m.Answer) != 1 || s.overUDP.Load() != tt.wantUDP || s.overTCP.Load() != tt.wantTCP {
			t.Errorf("TCP only %t, %d octets: %d queries over UDP, %d over TCP; %v, %v", tt.tcpOnly,
				tt.length, s.overUDP.Load(), s.overTCP.Load(), m, err)
		}
	}
}

// Replies too long for UDP, in every way that servers report it.
func TestExchange_LongReply(t *testing.T) {
	large := func(query *dns.Msg, n int) *dns.Msg {
		m := reply(query, 0, slices.Repeat([]string{"192.0.2.1"}, n)...)
		m.Compress = n > 1000 // to fit into a message
		return m
	}
	tests := []struct {
		name string
		udp  func(query *dns.Msg) []byte
		tcp  int64
		want int
	}{
		{"TC", func(q *dns.Msg) []byte { return truncated(t, q) }, 1, 4000},
		{"TC in the middle of a record", func(q *dns.Msg) []byte {
			m := large(q, 100)
			m.Truncated = true
			return pack(t, m)[:1232]
		}, 1, 4000},
		{"longer than the EDNS size, yet whole", func(q *dns.Msg) []byte { return pack(t, large(q, 50)) }, 0, 50},
		{"longer than the buffer", func(q *dns.Msg) []byte { return pack(t, large(q, 200)) }, 1, 4000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(network string, query *dns.Msg) [][]byte {
				if network == "udp" {
					return [][]byte{tt.udp(query)}
				}
				return [][]byte{pack(t, large(query, 4000))}
			})
			m, err := newClient(t, upstream.Config{}, s).Exchange(t.Context(), ask("www.example.com."))
			if err != nil || len(m.Answer) != tt.want || s.overTCP.Load() != tt.tcp || m.Truncated {
				t.Errorf("%v, %d queries over TCP: %v", err, s.overTCP.Load(), m)
			}
		})
	}
}

// Servers without EDNS reply FORMERR or NOTIMP, with the question or without.
func TestExchange_ServerWithoutEDNS(t *testing.T) {
	for _, rcode := range []int{dns.RcodeFormatError, dns.RcodeNotImplemented} {
		for _, repeats := range []bool{true, false} {
			s := serve(t, func(_ string, query *dns.Msg) [][]byte {
				if query.IsEdns0() == nil {
					return [][]byte{good(t, query)}
				}
				m := new(dns.Msg).SetRcode(query, rcode)
				if !repeats && rcode == dns.RcodeFormatError {
					m.Question = nil
				}
				return [][]byte{pack(t, m)}
			})
			expect(t, newClient(t, upstream.Config{}, s), "192.0.2.1")
		}
	}
	s := serve(t, always(t, dns.RcodeFormatError)) // supports EDNS: the error is about the query
	expect(t, newClient(t, upstream.Config{}, s), "FORMERR")
	if n := s.overUDP.Load(); n != 1 {
		t.Errorf("%d queries, want 1", n)
	}
}
