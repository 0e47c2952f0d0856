// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

// short is a TryTimeout for servers from which no valid reply is expected. A busy machine may take
// longer for a reply.
const short = 300 * time.Millisecond

// fake is a DNS server on the loopback interface, with one port for UDP and TCP.
type fake struct {
	upstream.Server
	overUDP, overTCP *atomic.Int64 // queries
	conns            *atomic.Int64
}

// answerer returns the messages that the server sends for a query.
type answerer func(network string, query *dns.Msg) [][]byte

func (a answerer) messages(network string, query *dns.Msg) (list []dnstest.Message) {
	for _, wire := range a(network, query) {
		list = append(list, dnstest.Message{Wire: wire})
	}
	return list
}

// serve starts a server that stops with the test.
func serve(t testing.TB, answer answerer) *fake {
	t.Helper()
	return newFake(dnstest.Start(t, answer.messages))
}

// serveStream starts a server that truncates all replies over UDP and passes its
// connections to stream.
func serveStream(t testing.TB, stream func(net.Conn)) *fake {
	t.Helper()
	answer := answerer(func(_ string, query *dns.Msg) [][]byte { return [][]byte{truncated(t, query)} })
	return newFake(dnstest.StartStreams(t, answer.messages, stream))
}

func newFake(s *dnstest.Server) *fake {
	return &fake{upstream.Server{Addr: s.Addr}, &s.OverUDP, &s.OverTCP, &s.Conns}
}

// readQuery reads a message with its length prefix.
func readQuery(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, m)
	return m, err
}

// replyTo replies to the queries of a connection until it ends. It sends nothing for a nil reply.
func replyTo(t testing.TB, conn net.Conn, reply func(query *dns.Msg) []byte) error {
	for {
		wire, err := readQuery(conn)
		if err != nil {
			return err
		}
		if m := reply(parse(t, wire)); m != nil {
			conn.Write(frame(m))
		}
	}
}

func frame(m []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}

func parse(t testing.TB, wire []byte) *dns.Msg {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Errorf("invalid query: %v: %x", err, wire)
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

// good is a valid reply with the address 192.0.2.1.
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

// closedPort returns a server whose port is closed.
func closedPort(t testing.TB) *fake {
	t.Helper()
	return newFake(&dnstest.Server{Addr: dnstest.ClosedPort(t)})
}

// patience is longer than a busy machine takes for a reply.
const patience = time.Minute

// newClient returns a client whose connections are closed at the end of the test. It has patience
// where cfg has no time: a test that counts queries or connections sees no second try.
func newClient(t testing.TB, cfg upstream.Config, servers ...*fake) *upstream.Client {
	t.Helper()
	cfg.TryTimeout = cmp.Or(cfg.TryTimeout, patience)
	cfg.Timeout = cmp.Or(cfg.Timeout, 3*patience)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, patience)
	for _, s := range servers {
		cfg.Servers = append(cfg.Servers, s.Server)
	}
	c := upstream.New(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return c
}

// run runs c until stop is called or the test ends.
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

// addresses queries a name and returns the addresses, the rcode or the error.
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

// noLeaks fails the test if it leaves goroutines. Those of sockets end with a delay.
func noLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(time.Minute)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			runtime.Gosched()
		}
	})
}
