// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

const (
	validAddr  = "192.0.2.1"    // in the reply of the upstream server
	forgedAddr = "203.0.113.66" // in replies that must be ignored
)

// shortTry is the upstream.Config.TryTimeout of tests that wait until it ends, longTry that
// of all others.
const (
	shortTry = 400 * time.Millisecond
	longTry  = 30 * time.Second
)

// startForwarder starts a server of smallCluster that forwards to servers. The timeout of a
// query is two and a half tries.
func startForwarder(t *testing.T, try time.Duration, servers ...netip.AddrPort) *testServer {
	t.Helper()
	config := upstream.Config{TryTimeout: try, Timeout: try * 5 / 2}
	for _, addr := range servers {
		config.Servers = append(config.Servers, upstream.Server{Addr: addr})
	}
	client, err := upstream.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, smallCluster, Config{Upstream: client.Exchange})
}

// newReply returns the reply to q with A records.
func newReply(t *testing.T, q *dns.Msg, addrs ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for _, a := range addrs {
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A " + a)
		if err != nil {
			t.Error(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

// validReply returns the reply to q with validAddr, as the only message.
func validReply(t *testing.T, q *dns.Msg) []dnstest.Message {
	return []dnstest.Message{{Wire: mustPack(t, newReply(t, q, validAddr))}}
}

// noReply is a dnstest.Handler that never replies.
func noReply(string, *dns.Msg) []dnstest.Message { return nil }

// invalidReplies are messages that are not a reply to the query.
var invalidReplies = map[string]func(t *testing.T, q *dns.Msg) dnstest.Message{
	"wrong ID":            changedReply(func(m *dns.Msg) { m.Id++ }),
	"wrong name":          changedReply(func(m *dns.Msg) { m.Question[0].Name = "wwx.example." }),
	"wrong type":          changedReply(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }),
	"wrong class":         changedReply(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
	"two questions":       changedReply(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
	"no question":         changedReply(func(m *dns.Msg) { m.Question = nil }),
	"query":               changedReply(func(m *dns.Msg) { m.Response = false }),
	"wrong opcode":        changedReply(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
	"wrong name and TC":   changedReply(func(m *dns.Msg) { m.Question[0].Name = "wwx.example."; m.Truncated = true }),
	"other source port":   otherPortReply,
	"empty":               func(*testing.T, *dns.Msg) dnstest.Message { return dnstest.Message{} },
	"header only":         cutReply(func([]byte) int { return headerLen }),
	"cut in the question": cutReply(func([]byte) int { return headerLen + 5 }),
}

// malformedReplies are replies to the query with content that cannot be parsed.
var malformedReplies = map[string]func(t *testing.T, q *dns.Msg) dnstest.Message{
	"cut in the answer": cutReply(func(wire []byte) int { return len(wire) - 2 }),
	"wrong answer count": func(t *testing.T, q *dns.Msg) dnstest.Message {
		wire := mustPack(t, newReply(t, q, forgedAddr))
		wire[6] = 0xFF
		return dnstest.Message{Wire: wire}
	},
	"compression pointer to itself": func(t *testing.T, q *dns.Msg) dnstest.Message {
		wire := mustPack(t, newReply(t, q))
		wire[7] = 1
		return dnstest.Message{Wire: append(wire, 0xC0, byte(len(wire)), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)}
	},
	"compression pointers in a loop": func(t *testing.T, q *dns.Msg) dnstest.Message {
		wire := mustPack(t, newReply(t, q))
		wire[7] = 1
		at := byte(len(wire))
		return dnstest.Message{Wire: append(wire, 1, 'a', 0xC0, at+4, 1, 'b', 0xC0, at, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)}
	},
}

func changedReply(change func(*dns.Msg)) func(*testing.T, *dns.Msg) dnstest.Message {
	return func(t *testing.T, q *dns.Msg) dnstest.Message {
		m := newReply(t, q, forgedAddr)
		change(m)
		return dnstest.Message{Wire: mustPack(t, m)}
	}
}

func cutReply(length func(wire []byte) int) func(*testing.T, *dns.Msg) dnstest.Message {
	return func(t *testing.T, q *dns.Msg) dnstest.Message {
		wire := mustPack(t, newReply(t, q, forgedAddr))
		return dnstest.Message{Wire: wire[:length(wire)]}
	}
}

func otherPortReply(t *testing.T, q *dns.Msg) dnstest.Message {
	return dnstest.Message{Wire: mustPack(t, newReply(t, q, forgedAddr)), OtherPort: true}
}

// TestUpstream_InvalidReplies sends invalid replies before the valid one, and alone. The
// client gets the valid reply, or else SERVFAIL after the timeout. The cache keeps none of the
// invalid ones, and the cluster's names are answered.
func TestUpstream_InvalidReplies(t *testing.T) {
	for name, invalid := range invalidReplies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			followed := dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
				if network == "tcp" { // others cannot send into a connection
					return validReply(t, q)
				}
				return append([]dnstest.Message{invalid(t, q)}, validReply(t, q)...)
			})
			alone := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return []dnstest.Message{invalid(t, q)} })
			for s, want := range map[*testServer]string{
				startForwarder(t, longTry, followed.Addr): validAddr,
				startForwarder(t, shortTry, alone.Addr):   "SERVFAIL",
			} {
				s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
					for range 2 {
						if got := addresses(exchange("www.example. A")); got != want {
							t.Errorf("got %s, want %s", got, want)
						}
					}
					if got := addresses(exchange("web.default.svc.cluster.local. A")); got != "10.96.0.7" {
						t.Errorf("name of the cluster: got %s, want 10.96.0.7", got)
					}
				})
			}
		})
	}
}

// TestUpstream_MalformedReplies: a reply with malformed content is SERVFAIL with its own text
// at once, and then from the cache, which says so.
func TestUpstream_MalformedReplies(t *testing.T) {
	for name, malformed := range malformedReplies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return []dnstest.Message{malformed(t, q)} })
			s := startForwarder(t, longTry, server.Addr)
			const malformedReply = "23 the upstream server's reply is malformed"
			for i, want := range []string{malformedReply, malformedReply + ", 13"} {
				reply := s.exchange(t, "udp", parseQuery("www.example. A", true))
				if reply.Rcode != dns.RcodeServerFailure || extendedErrors(reply) != want {
					t.Errorf("query %d: got %v, want SERVFAIL with %q", i+1, reply, want)
				}
			}
			if n := server.OverUDP.Load(); n != 1 {
				t.Errorf("%d queries to the upstream server, want 1", n)
			}
		})
	}
}

// brokenRecords are records that the library does not parse, or changes.
var brokenRecords = []struct {
	name   string
	rrtype uint16
	data   []byte
}{
	{"EUI48 of three octets", dns.TypeEUI48, []byte{1, 2, 3}},
	{"HTTPS with unsorted keys", dns.TypeHTTPS, []byte{0, 1, 0, 0, 3, 0, 2, 1, 187, 0, 1, 0, 3, 2, 'h', '2'}},
	{"HTTPS with an empty ipv4hint", dns.TypeHTTPS, []byte{0, 1, 0, 0, 4, 0, 0}},
	{"APL of an unknown family", dns.TypeAPL, []byte{0, 99, 8, 1, 10}},
	{"NSEC with an empty block", dns.TypeNSEC, []byte{1, 'a', 0, 0, 0}},
	{"empty TXT", dns.TypeTXT, nil},
	{"LOC of three octets", dns.TypeLOC, []byte{0, 0x12, 0x16}},
	{"HINFO of one string", dns.TypeHINFO, []byte{3, 'c', 'p', 'u'}},
	{"unknown type", 65280, []byte{0xC0, 12}},
}

// rdataOf returns the RDATA of the only answer in a reply whose owner is a pointer to the
// question.
func rdataOf(t *testing.T, wire []byte) []byte {
	t.Helper()
	at := headerLen + upstream.SkipName(wire[headerLen:], 0) + questionFixedLen + 2 + recordFixedLen
	if wire[7] != 1 || at > len(wire) {
		t.Fatalf("no answer in %x", wire)
	}
	return wire[at : at+int(binary.BigEndian.Uint16(wire[at-2:]))]
}

// TestUpstream_OpaqueRecords: RDATA that the library does not parse, or would change, reaches
// the client unchanged: from the server and from the cache, over UDP and TCP.
func TestUpstream_OpaqueRecords(t *testing.T) {
	for _, record := range brokenRecords {
		for _, tcp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TCP %t", record.name, tcp), func(t *testing.T) {
				server := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
					wire := mustPack(t, new(dns.Msg).SetReply(q))
					wire[7] = 1
					wire = append(wire, 0xC0, 12, byte(record.rrtype>>8), byte(record.rrtype), 0, 1, 0, 0, 0, 60, 0, byte(len(record.data)))
					return []dnstest.Message{{Wire: append(wire, record.data...)}}
				})
				client, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Addr: server.Addr, TCP: tcp}}})
				if err != nil {
					t.Fatal(err)
				}
				s := newServer(t, smallCluster, Config{Upstream: client.Exchange})
				packet := mustPack(t, new(dns.Msg).SetQuestion("www.example.", record.rrtype))
				for _, via := range []transport{overUDP, overTCP, overUDP} {
					if got := rdataOf(t, handlePacket(t.Context(), s, packet, via, podAddr)); !bytes.Equal(got, record.data) {
						t.Errorf("over %v: got % x, want % x", via, got, record.data)
					}
				}
				if n := server.OverUDP.Load() + server.OverTCP.Load(); n != 1 {
					t.Errorf("%d queries to the upstream server, want 1", n)
				}
				cached := answer{wire: handlePacket(t.Context(), s, packet, overUDP, podAddr)}
				if a := cached.withRecords(); len(a.answers) != 1 || a.failed() {
					t.Errorf("the records of the cached reply: %+v", a)
				}
			})
		}
	}
}

// TestUpstream_GuessedIDs sends a flood of replies with wrong IDs. After 20 of them the query
// is sent over TCP, which the sender of the flood cannot reach.
func TestUpstream_GuessedIDs(t *testing.T) {
	handler := func(network string, q *dns.Msg) []dnstest.Message {
		if network == "tcp" {
			return validReply(t, q)
		}
		return slices.Repeat([]dnstest.Message{invalidReplies["wrong ID"](t, q)}, 2000)
	}
	for want, server := range map[string]*dnstest.Server{
		validAddr:  dnstest.Start(t, handler),
		"SERVFAIL": dnstest.StartStreams(t, handler, func(net.Conn) {}), // closes each connection
	} {
		s := startForwarder(t, longTry, server.Addr)
		if got := addresses(s.exchange(t, "udp", parseQuery("www.example. A", true))); got != want || server.Conns.Load() == 0 {
			t.Errorf("got %s after %d connections, want %s", got, server.Conns.Load(), want)
		}
	}
}

// TestUpstream_Timeouts: a server that does not reply in time, or refuses the connection,
// costs the first client at most the timeout. The same query is then answered from the cache.
// A slow reply within the timeout is used. With a second server every query is answered.
func TestUpstream_Timeouts(t *testing.T) {
	closed := func(t *testing.T) netip.AddrPort { return dnstest.ClosedPort(t) } // ICMP port unreachable
	late := func(after time.Duration) func(t *testing.T) netip.AddrPort {
		return func(t *testing.T) netip.AddrPort {
			return dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
				reply := validReply(t, q)
				reply[0].After = after
				return reply
			}).Addr
		}
	}
	for _, tt := range []struct {
		name string
		addr func(*testing.T) netip.AddrPort
		try  time.Duration
		want string
	}{
		{"no reply", func(t *testing.T) netip.AddrPort { return dnstest.Start(t, noReply).Addr }, shortTry, "SERVFAIL"},
		{"port unreachable", closed, shortTry, "SERVFAIL"},
		{"slow", late(time.Second), longTry, validAddr},
		{"too slow", late(10 * shortTry), shortTry, "SERVFAIL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startForwarder(t, tt.try, tt.addr(t))
			for range 2 {
				reply := s.exchange(t, "udp", parseQuery("www.example. A", true))
				if got := addresses(reply); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			}
			// The first reply is from the upstream server, the second from the cache, also if it is a failure.
			forwarded := s.counterSum(t, "dnsconfigurer_dns_queries_total", "source=upstream")
			cached := s.counterSum(t, "dnsconfigurer_dns_queries_total", "source=cache")
			if forwarded != 1 || cached != 1 {
				t.Errorf("got %d replies from upstream and %d from the cache, want 1 and 1", forwarded, cached)
			}
			second := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return validReply(t, q) })
			s = startForwarder(t, longTry, tt.addr(t), second.Addr) // which is queried after 200 ms
			for i := range 5 {
				if got := addresses(s.exchange(t, "udp", parseQuery(fmt.Sprintf("www%d.example. A", i), false))); got != validAddr {
					t.Errorf("with a second server: got %s, want %s", got, validAddr)
				}
			}
		})
	}
}

// TestUpstream_LongReplies: a reply of any length arrives complete over TCP. A reply that the
// upstream server sends incomplete only is never sent as a complete one: it has TC over UDP,
// and is SERVFAIL over TCP.
func TestUpstream_LongReplies(t *testing.T) {
	withRecords := func(q *dns.Msg, n int) *dns.Msg {
		return newReply(t, q, slices.Repeat([]string{validAddr}, n)...)
	}
	truncated := func(_ string, q *dns.Msg) []dnstest.Message {
		m := newReply(t, q)
		m.Truncated = true
		return []dnstest.Message{{Wire: mustPack(t, m)}}
	}
	cut := func(_ string, q *dns.Msg) []dnstest.Message {
		m := withRecords(q, 40)
		m.Truncated = true
		return []dnstest.Message{{Wire: mustPack(t, m)[:500]}}
	}
	complete := func(n int) dnstest.Handler {
		return func(_ string, q *dns.Msg) []dnstest.Message {
			return []dnstest.Message{{Wire: mustPack(t, withRecords(q, n))}}
		}
	}
	for _, tt := range []struct {
		name             string
		overUDP, overTCP dnstest.Handler
		try              time.Duration
		udp, tcp         string // what the client gets
	}{
		{"TC, then TCP", truncated, complete(100), longTry, "TC", "100"},
		{"TC in the middle of a record, then TCP", cut, complete(100), longTry, "TC", "100"},
		{"longer than any UDP reply, then TCP", complete(1000), complete(100), longTry, "TC", "100"},
		{"longer than the advertised size, in one packet", complete(100), noReply, longTry, "TC", "100"},
		{"TC over TCP too", truncated, truncated, longTry, "TC", "SERVFAIL"},
		{"TC, no reply over TCP", truncated, noReply, 2 * time.Second, "TC", "SERVFAIL"},
		{"TC in the middle of a record, no reply over TCP", cut, noReply, shortTry, "SERVFAIL", "SERVFAIL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := startForwarder(t, tt.try, dnstest.Start(t, func(network string, q *dns.Msg) []dnstest.Message {
				if network == "udp" {
					return tt.overUDP(network, q)
				}
				return tt.overTCP(network, q)
			}).Addr)
			for network, want := range map[string]string{"udp": tt.udp, "tcp": tt.tcp} {
				for _, edns := range []bool{false, true} {
					reply := s.exchange(t, network, parseQuery("www.example. A", edns))
					got := dns.RcodeToString[reply.Rcode]
					switch {
					case reply.Truncated:
						got = "TC"
					case reply.Rcode == dns.RcodeSuccess:
						got = fmt.Sprint(len(reply.Answer))
					}
					if got != want {
						t.Errorf("over %s: got %s, want %s", network, got, want)
					}
				}
			}
		})
	}
}

// TestUpstream_UnrelatedRecords: records of other names in a reply do not reach clients, and do not answer
// queries for those names.
func TestUpstream_UnrelatedRecords(t *testing.T) {
	unrelated := parseRecords(t, "web.default.svc.cluster.local. 60 IN A "+forgedAddr+"\n"+
		"other.example. 60 IN A "+forgedAddr+"\n7.0.96.10.in-addr.arpa. 60 IN PTR bank.example.")
	server := dnstest.Start(t, dnstest.Reply(func(q *dns.Msg) *dns.Msg {
		m := newReply(t, q, validAddr)
		if q.Question[0].Name == "www.example." {
			m.Answer = append(m.Answer, unrelated...)
			m.Ns, m.Extra = unrelated, unrelated
		}
		return m
	}))
	s := startForwarder(t, longTry, server.Addr)
	s.forEachTransport(t, func(t *testing.T, _ bool, exchange func(string) *dns.Msg) {
		for range 2 { // from the server, and from the cache
			if m := exchange("www.example. A"); addresses(m) != validAddr || len(m.Answer) != 1 || len(m.Ns) != 0 || len(m.Extra) > 1 {
				t.Errorf("got %v, want one record and perhaps OPT", m)
			}
		}
		for question, want := range map[string]string{"web.default.svc.cluster.local. A": "10.96.0.7", "other.example. A": validAddr} {
			if got := addresses(exchange(question)); got != want {
				t.Errorf("%s: got %s, want %s", question, got, want)
			}
		}
		if ptr := exchange("7.0.96.10.in-addr.arpa. PTR"); len(ptr.Answer) != 1 ||
			ptr.Answer[0].(*dns.PTR).Ptr != "web.default.svc.cluster.local." {
			t.Errorf("PTR: got %s, want web.default.svc.cluster.local.", replyText(ptr))
		}
	})
}

// TestForward_Limit: a client that floods the server with queries for one name gets SERVFAIL when it has
// all slots except the reserves. The cluster's names are answered, and another client's query is sent.
func TestForward_Limit(t *testing.T) {
	const most = MinQueries - MinQueries/16 - 3*(MinQueries/32)
	var waiting atomic.Int32
	s := startServer(t, smallCluster, Config{Limits: Limits{MaxQueries: MinQueries},
		Upstream: func(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
			waiting.Add(1)
			defer waiting.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	flood, err := net.Dial("udp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	packet := mustPack(t, parseQuery("www.example. A", true))
	for range 2 * most {
		flood.Write(packet)
	}
	poll.Until(t, "a query above the limit", func() bool {
		return s.counterSum(t, "dnsconfigurer_dns_queries_total", "source=server", "rcode=SERVFAIL") > 0
	})
	expectWaiting := func(want int32) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("%d queries at the upstream server", want), func() bool { return waiting.Load() == want })
	}
	expectWaiting(most)
	s.forEachTransport(t, func(t *testing.T, edns bool, exchange func(string) *dns.Msg) {
		if got := addresses(exchange("web.default.svc.cluster.local. A")); got != "10.96.0.7" {
			t.Errorf("name of the cluster: got %s, want 10.96.0.7", got)
		}
	})
	other := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := other.DialContext(t.Context(), "udp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write(packet)
	expectWaiting(most + 1)
	if n := s.cache.Stats().Entries; n != 0 {
		t.Errorf("%d failures are cached although no server was queried", n)
	}
}
