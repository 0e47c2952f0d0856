// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// short is a TryTimeout for tests in which a server is silent.
const short = 300 * time.Millisecond

// fake is a server on loopback, over UDP and TCP at one port.
type fake struct {
	upstream.Server
	overUDP, overTCP, conns atomic.Int64 // queries, and connections
}

// answerer returns what the server sends for a query, message by message.
type answerer func(network string, query *dns.Msg) [][]byte

// serve starts a server that ends with the test.
func serve(t testing.TB, answer answerer) *fake {
	t.Helper()
	f := new(fake)
	return f.listen(t, answer, func(conn net.Conn) { f.framed(t, conn, answer) })
}

// serveStream starts a server that truncates all replies over UDP, and does with
// connections what stream does.
func serveStream(t testing.TB, stream func(net.Conn)) *fake {
	t.Helper()
	return new(fake).listen(t, func(_ string, query *dns.Msg) [][]byte { return [][]byte{truncated(t, query)} }, stream)
}

func (f *fake) listen(t testing.TB, answer answerer, stream func(net.Conn)) *fake {
	t.Helper()
	tcp, udp := listenBoth(t)
	f.Addr = netip.MustParseAddrPort(tcp.Addr().String())
	var all sync.WaitGroup
	all.Go(func() { f.datagrams(t, udp, answer) })
	all.Go(func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			f.conns.Add(1)
			all.Go(func() {
				defer conn.Close()
				stream(conn)
			})
		}
	})
	t.Cleanup(func() {
		udp.Close()
		tcp.Close()
		all.Wait()
	})
	return f
}

// listenBoth finds a port that is free for both transports.
func listenBoth(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 100 {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp
		}
		tcp.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

func (f *fake) datagrams(t testing.TB, conn net.PacketConn, answer answerer) {
	buf := make([]byte, dns.MaxMsgSize)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		f.overUDP.Add(1)
		for _, m := range answer("udp", parse(t, buf[:n])) {
			conn.WriteTo(m, from)
		}
	}
}

func (f *fake) framed(t testing.TB, conn net.Conn, answer answerer) {
	for {
		query, err := readQuery(conn)
		if err != nil {
			return
		}
		f.overTCP.Add(1)
		for _, m := range answer("tcp", parse(t, query)) {
			conn.Write(frame(m))
		}
	}
}

// readQuery reads one message with its length.
func readQuery(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, m)
	return m, err
}

func frame(m []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}

func parse(t testing.TB, wire []byte) *dns.Msg {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Errorf("what came is no query: %v: %x", err, wire)
	}
	return m
}

func pack(t testing.TB, m *dns.Msg) []byte {
	wire, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return wire
}

// good is the right reply: address 192.0.2.1.
func good(t testing.TB, query *dns.Msg) []byte { return pack(t, reply(query, 0, "192.0.2.1")) }

func truncated(t testing.TB, query *dns.Msg) []byte {
	m := reply(query, 0)
	m.Truncated = true
	return pack(t, m)
}

func reply(query *dns.Msg, rcode int, addresses ...string) *dns.Msg {
	m := new(dns.Msg).SetRcode(query, rcode)
	if query.IsEdns0() != nil {
		m.SetEdns0(4096, false)
	}
	for _, a := range addresses {
		m.Answer = append(m.Answer, &dns.A{
			Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   net.ParseIP(a),
		})
	}
	return m
}

func always(t testing.TB, rcode int, addresses ...string) answerer {
	return func(_ string, query *dns.Msg) [][]byte { return [][]byte{pack(t, reply(query, rcode, addresses...))} }
}

func silent(string, *dns.Msg) [][]byte { return nil }

func newClient(t testing.TB, cfg upstream.Config, servers ...*fake) *upstream.Client {
	t.Helper()
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Server)
	}
	c, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs c until the test ends, or until the function that it returns is called.
func run(t testing.TB, c *upstream.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func ask(name string) *dns.Msg { return new(dns.Msg).SetQuestion(name, dns.TypeA) }

// addresses asks for a name and returns what comes: addresses, an rcode or an error.
func addresses(t testing.TB, c *upstream.Client, name string) string {
	t.Helper()
	m, err := c.Exchange(t.Context(), ask(name))
	if err != nil {
		return "error: " + err.Error()
	}
	if len(m.Answer) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	var list []string
	for _, r := range m.Answer {
		list = append(list, r.(*dns.A).A.String())
	}
	return strings.Join(list, " ")
}

func expect(t testing.TB, c *upstream.Client, want string) {
	t.Helper()
	if got := addresses(t, c, "www.example.com."); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// noLeaks fails when the test leaves goroutines behind. Those of sockets take a
// moment to end.
func noLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			runtime.Gosched()
		}
	})
}

// What is sent is our query, not the asker's: his question and flags, our ID, name
// in lower case, EDNS as we can take it, and no options but those that are meant for
// the server.
func TestWhatIsSent(t *testing.T) {
	noLeaks(t)
	const passed = 65313
	arrived := make(chan *dns.Msg, 1)
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		arrived <- query
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{Options: []uint16{passed}}, s)
	for _, flags := range []struct{ rd, cd, do, edns bool }{{}, {rd: true}, {cd: true, edns: true}, {rd: true, do: true, edns: true}} {
		query := ask("WWW.Example.com.")
		query.RecursionDesired, query.CheckingDisabled = flags.rd, flags.cd
		if flags.edns {
			query.SetEdns0(512, flags.do)
			query.IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
				&dns.EDNS0_LOCAL{Code: passed, Data: []byte("ns.svc.cluster.local")},
				&dns.EDNS0_LOCAL{Code: passed + 1, Data: []byte("x")},
			}
		}
		got, err := c.Exchange(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		sent := <-arrived
		opt := sent.IsEdns0()
		if sent.RecursionDesired != flags.rd || sent.CheckingDisabled != flags.cd || !sent.AuthenticatedData || opt.Do() != flags.do ||
			opt.UDPSize() != 1232 || sent.Question[0].Name != "www.example.com." {
			t.Errorf("%+v: sent %v", flags, sent)
		}
		options := slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == passed })
		if options != flags.edns || len(opt.Option) > 1 {
			t.Errorf("%+v: sent options %v", flags, opt.Option)
		}
		if got.Id != query.Id || got.Question[0] != query.Question[0] || got.RecursionDesired != flags.rd || got.CheckingDisabled != flags.cd {
			t.Errorf("%+v: got %v", flags, got)
		}
	}
}

// The reply that counts is the one that fits the query, whatever comes before it.
func TestForgedReplies(t *testing.T) {
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
		"cut after a record":  func(q *dns.Msg) []byte { m := good(t, q); m[7]++; return m },
		"half of the data": func(q *dns.Msg) []byte {
			m := pack(t, new(dns.Msg).SetReply(q))
			m[9] = 1 // an SOA record that ends after its first name
			return append(m, 0, 0, 6, 0, 1, 0, 0, 0, 60, 0, 3, 1, 'a', 0)
		},
		"no data": func(q *dns.Msg) []byte {
			m := pack(t, new(dns.Msg).SetReply(q))
			m[7] = 1
			return append(m, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 0)
		},
		"cut in a record": func(q *dns.Msg) []byte { m := good(t, q); return m[:len(m)-20] },
		"a name that points at itself": func(q *dns.Msg) []byte {
			m := pack(t, new(dns.Msg).SetReply(q))
			m[7] = 1 // one answer, whose owner is at offset ...
			return append(m, 0xC0, byte(len(m)), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66)
		},
	}
	for name, f := range forged {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(_ string, query *dns.Msg) [][]byte { return [][]byte{f(query), good(t, query)} })
			c := newClient(t, upstream.Config{}, s)
			expect(t, c, "192.0.2.1")
			alone := serve(t, func(_ string, query *dns.Msg) [][]byte { return [][]byte{f(query)} })
			c = newClient(t, upstream.Config{TryTimeout: short / 3, Timeout: short}, alone)
			expect(t, c, "error: no upstream server answers")
		})
	}
}

// Who has to guess so often is not given more time to: TCP.
func TestGuessing(t *testing.T) {
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
}

// TestLongQueries: a query with options that make it longer than what passes every network
// in one piece goes over TCP, and so does every query to a server that is asked so.
func TestLongQueries(t *testing.T) {
	const option = 65313
	asking := func(length int) *dns.Msg {
		q := ask("www.example.").SetEdns0(1232, false)
		q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: option, Data: make([]byte, length)}}
		return q
	}
	rest := asking(0).Len()
	for _, tt := range []struct {
		tcp      bool
		length   int // of the query
		udp, way int64
	}{{false, 1232, 1, 0}, {false, 1233, 0, 1}, {true, 100, 0, 1}} {
		s := serve(t, always(t, dns.RcodeSuccess, "192.0.2.1"))
		s.TCP = tt.tcp
		c := newClient(t, upstream.Config{Options: []uint16{option}}, s)
		m, err := c.Exchange(t.Context(), asking(tt.length-rest))
		if err != nil || len(m.Answer) != 1 || s.overUDP.Load() != tt.udp || s.overTCP.Load() != tt.way {
			t.Errorf("TCP alone %t, %d octets: %d queries over UDP, %d over TCP; %v, %v", tt.tcp, tt.length, s.overUDP.Load(), s.overTCP.Load(), m, err)
		}
	}
}

// Replies that are too long for UDP, in all the ways in which servers say so.
func TestLongReplies(t *testing.T) {
	large := func(query *dns.Msg, n int) *dns.Msg {
		m := reply(query, 0, slices.Repeat([]string{"192.0.2.1"}, n)...)
		m.Compress = n > 1000 // or else it is longer than any message
		return m
	}
	tests := []struct {
		why  string
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
		{"longer than we said, yet whole", func(q *dns.Msg) []byte { return pack(t, large(q, 50)) }, 0, 50},
		{"longer than the buffer", func(q *dns.Msg) []byte { return pack(t, large(q, 200)) }, 1, 4000},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
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

// Servers that do not know EDNS say so with the question or without.
func TestWithoutEDNS(t *testing.T) {
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
	s := serve(t, always(t, dns.RcodeFormatError)) // knows EDNS, and means what it says
	expect(t, newClient(t, upstream.Config{}, s), "FORMERR")
	if n := s.overUDP.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
