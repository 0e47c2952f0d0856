// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnstest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Handler returns the messages that a server sends for a query, in order. Without a
// message there is no reply. It is called for one UDP query at a time, and at the same
// time for queries of TCP connections.
type Handler func(network string, query *dns.Msg) []Message

// Message is one message of a server.
type Message struct {
	Wire      []byte
	After     time.Duration // the pause before it
	OtherPort bool          // a datagram is sent from another port than the server's
}

// Reply returns a Handler that sends the reply that f makes, or nothing if that is nil.
func Reply(f func(query *dns.Msg) *dns.Msg) Handler {
	return func(_ string, query *dns.Msg) []Message {
		reply := f(query)
		if reply == nil {
			return nil
		}
		wire, err := reply.Pack()
		if err != nil {
			panic(fmt.Sprintf("dnstest: the reply to %v cannot be packed: %v", query.Question, err))
		}
		return []Message{{Wire: wire}}
	}
}

// Server is a running server. Its counters may be read at any time.
type Server struct {
	Addr netip.AddrPort

	OverUDP, OverTCP atomic.Int64 // queries
	Conns            atomic.Int64 // TCP connections

	handler Handler
	udp     net.PacketConn
	tcp     net.Listener   // nil: UDP alone
	other   net.PacketConn // the other port
	running sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool // nil: the server is closed
	err  error             // about messages that are not queries
}

// Start runs a server on loopback until the test ends. A message that is not a query
// fails the test.
func Start(t testing.TB, h Handler) *Server {
	t.Helper()
	s := must.Get(New(h))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// StartStreams is Start with a server whose TCP connections are left to stream.
func StartStreams(t testing.TB, h Handler, stream func(net.Conn)) *Server {
	t.Helper()
	udp, tcp, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(udp, tcp, h, func(_ *Server, c net.Conn) { stream(c) })
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ClosedPort returns an address of loopback whose UDP port is closed until the test ends. A socket
// that is connected to another address keeps the port: the kernel refuses the packets of others,
// and does not give the port to another socket.
func ClosedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	loopback := net.IPv4(127, 0, 0, 1)
	c, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: loopback, Port: 9}) // discard
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// New runs a server at a port of 127.0.0.1 until Close is called.
func New(h Handler) (*Server, error) {
	udp, tcp, err := listen()
	if err != nil {
		return nil, fmt.Errorf("dnstest: listen: %w", err)
	}
	return Serve(udp, tcp, h), nil
}

// Serve runs a server on sockets, such as those of a network namespace. tcp may be nil.
func Serve(udp net.PacketConn, tcp net.Listener, h Handler) *Server {
	return serve(udp, tcp, h, (*Server).serveStream)
}

func serve(udp net.PacketConn, tcp net.Listener, h Handler, stream func(*Server, net.Conn)) *Server {
	s := &Server{Addr: udp.LocalAddr().(*net.UDPAddr).AddrPort(), handler: h, udp: udp, tcp: tcp, open: map[net.Conn]bool{}}
	s.running.Go(s.serveUDP)
	if tcp != nil {
		s.running.Go(func() { s.accept(stream) })
	}
	return s
}

// Close stops the server and waits for its handlers. The error is about messages
// that were not queries.
func (s *Server) Close() error {
	_ = s.udp.Close()
	if s.tcp != nil {
		_ = s.tcp.Close()
	}
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.other != nil {
		_ = s.other.Close()
	}
	return s.err
}

// listen opens a port that is free for both transports.
func listen() (udp net.PacketConn, tcp net.Listener, err error) {
	for range 100 {
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return udp, tcp, nil
		}
		_ = tcp.Close()
	}
	return nil, nil, err
}

func (s *Server) serveUDP() {
	buf := make([]byte, dns.MaxMsgSize)
	for {
		n, from, err := s.udp.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error for an earlier reply
		}
		s.OverUDP.Add(1)
		messages := s.handle("udp", buf[:n])
		if len(messages) == 1 && messages[0].After == 0 {
			s.send(messages, from)
			continue
		}
		s.running.Go(func() { s.send(messages, from) })
	}
}

func (s *Server) send(messages []Message, to net.Addr) {
	for _, m := range messages {
		time.Sleep(m.After)
		conn := s.udp
		if m.OtherPort {
			conn = s.otherPort()
		}
		_, _ = conn.WriteTo(m.Wire, to) // the client may be gone
	}
}

func (s *Server) otherPort() net.PacketConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.other == nil {
		conn, err := net.ListenPacket("udp", netip.AddrPortFrom(s.Addr.Addr(), 0).String())
		if err != nil {
			panic(fmt.Sprintf("dnstest: listen: %v", err))
		}
		s.other = conn
	}
	return s.other
}

func (s *Server) accept(stream func(*Server, net.Conn)) {
	for {
		c, err := s.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the test of this process has used up the file descriptors, and releases them
			time.Sleep(time.Millisecond)
			continue
		}
		if !s.track(c) {
			_ = c.Close()
			return
		}
		s.running.Go(func() {
			stream(s, c)
			_ = c.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, c)
		})
	}
}

// track lets Close close c. It reports false if the server is closed already.
func (s *Server) track(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.Conns.Add(1)
	s.open[c] = true
	return true
}

func (s *Server) serveStream(c net.Conn) {
	for conn := (&dns.Conn{Conn: c}); ; {
		wire, err := conn.ReadMsgHeader(nil)
		if err != nil {
			return
		}
		s.OverTCP.Add(1)
		for _, m := range s.handle("tcp", wire) {
			time.Sleep(m.After)
			if _, err := conn.Write(m.Wire); err != nil {
				return
			}
		}
	}
}

// handle calls the handler with a query of one question.
func (s *Server) handle(network string, wire []byte) []Message {
	q := new(dns.Msg)
	err := q.Unpack(wire)
	if err == nil && (q.Response || len(q.Question) != 1) {
		err = fmt.Errorf("a message that is not a query: %v", q)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = errors.Join(s.err, fmt.Errorf("dnstest: received over %s: %w", network, err))
		return nil
	}
	return s.handler(network, q)
}
