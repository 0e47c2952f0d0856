// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// listening are the addresses with a server. At other loopback addresses a connection is
// refused.
var listening = []string{"127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"}

// servers reply with the script of a world and record each query.
type servers struct {
	packets   []net.PacketConn
	listeners []net.Listener
	flushed   chan struct{}
	wait      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	world   world
	queries []string
	headers *headers
}

// headers are the flags and OPT records of queries.
type headers struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (h *headers) record(q *dns.Msg) {
	s := fmt.Sprintf("rd=%t ad=%t cd=%t", q.RecursionDesired, q.AuthenticatedData, q.CheckingDisabled)
	if opt := q.IsEdns0(); opt != nil {
		s += fmt.Sprintf(" edns=%d do=%t", opt.UDPSize(), opt.Do())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[string]bool{}
	}
	h.seen[s] = true
}

func (h *headers) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.seen))
}

// listen opens the sockets in the namespace of its thread.
func listen(t *testing.T) *servers {
	s := &servers{flushed: make(chan struct{})}
	for _, address := range listening {
		at := net.JoinHostPort(address, "53")
		packets, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Error(err)
			return s
		}
		listener, err := net.Listen("tcp", at)
		if err != nil {
			t.Error(err)
			return s
		}
		s.packets, s.listeners = append(s.packets, packets), append(s.listeners, listener)
		s.wait.Go(func() { s.serveUDP(packets, address) })
		s.wait.Go(func() { s.serveTCP(listener, address) })
	}
	return s
}

func (s *servers) close() {
	for _, c := range s.packets {
		c.Close()
	}
	for _, l := range s.listeners {
		l.Close()
	}
	s.wait.Wait()
}

// begin prepares the servers for a lookup.
func (s *servers) begin(w world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world, s.queries, s.headers = w, nil, new(headers)
}

// end returns the queries since begin. The loopback interface delivers a packet when it
// is sent, so the packet that is not a query is the last one.
func (s *servers) end(t *testing.T) (queries, header []string) {
	for _, c := range s.packets {
		if _, err := c.WriteTo([]byte{0}, c.LocalAddr()); err != nil {
			t.Error(err)
		}
		<-s.flushed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries, s.headers.list()
}

// answer records a query and returns the reply, nil for none.
func (s *servers) answer(server string, query []byte, tcp bool) []byte {
	q := new(dns.Msg)
	if err := q.Unpack(query); err != nil || len(q.Question) != 1 {
		s.record(malformed + " udp " + server)
		return nil
	}
	s.record(recorded(q.Question[0].Name, q.Question[0].Qtype, server, tcp))
	s.mu.Lock()
	s.headers.record(q)
	reply := s.world.reply(server, q, tcp)
	s.mu.Unlock()
	if reply == nil {
		return nil
	}
	b, err := reply.Pack()
	if err != nil {
		s.record(err.Error())
	}
	return b
}

func (s *servers) record(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, line)
}

// serveUDP replies to one packet at a time.
func (s *servers) serveUDP(c net.PacketConn, server string) {
	buf := make([]byte, 65535)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if n == 1 {
			s.flushed <- struct{}{}
			continue
		}
		if reply := s.answer(server, buf[:n], false); reply != nil {
			_, _ = c.WriteTo(reply, from)
		}
	}
}

func (s *servers) serveTCP(l net.Listener, server string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for conn := (&dns.Conn{Conn: c}); ; {
			buf, err := conn.ReadMsgHeader(nil)
			if err != nil {
				break
			}
			if reply := s.answer(server, buf, true); reply != nil {
				_, _ = conn.Write(reply)
			}
		}
		c.Close()
	}
}
