// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// truncateUDP is a server whose replies need TCP.
func truncateUDP(t testing.TB) answerer {
	return func(network string, query *dns.Msg) [][]byte {
		if network == "udp" {
			return [][]byte{truncated(t, query)}
		}
		return [][]byte{good(t, query)}
	}
}

// A connection carries many queries, before Run and during it, and Run closes it.
func TestStream_Reuse(t *testing.T) {
	noLeaks(t)
	for _, running := range []bool{true, false} {
		s := serve(t, truncateUDP(t))
		c := newClient(t, upstream.Config{}, s)
		if running {
			run(t, c)
		}
		for range 5 {
			expect(t, c, "192.0.2.1")
		}
		if !running {
			run(t, c)()
		}
		if got := s.conns.Load(); got != 1 {
			t.Errorf("Run %t: %d connections for five queries, want 1", running, got)
		}
	}
}

// serveReleased starts a server over TCP that reads one query of a connection at a time. It sends to
// arrived, and replies when release is closed.
func serveReleased(t *testing.T, arrived chan<- struct{}, release <-chan struct{}) *fake {
	t.Helper()
	s := serveStream(t, func(conn net.Conn) {
		_ = replyTo(t, conn, func(query *dns.Msg) []byte {
			arrived <- struct{}{}
			<-release
			return good(t, query)
		})
	})
	s.TCP = true
	return s
}

// When Run ends, a pending query still gets its reply; later ones fail.
func TestStream_RunEnds(t *testing.T) {
	noLeaks(t)
	arrived, release := make(chan struct{}, 1000), make(chan struct{})
	s := serveReleased(t, arrived, release)
	c := newClient(t, upstream.Config{TryTimeout: time.Minute, Timeout: time.Minute}, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	var pending sync.WaitGroup
	pending.Go(func() { expect(t, c, "192.0.2.1") })
	<-arrived
	cancel()
	stopped := func(i int) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := c.Exchange(ctx, ask(fmt.Sprintf("late%d.example.com.", i)))
		return err != nil && strings.Contains(err.Error(), "upstream client is stopped")
	}
	for i := 0; !stopped(i); i++ {
		if i == 500 {
			t.Fatal("new queries are accepted after Run")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("Run did not wait for the pending query: %v", err)
	default:
	}
	close(release)
	pending.Wait()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	expect(t, c, "error: no upstream server replied: "+s.String()+": upstream client is stopped")
}

// A query whose caller no longer waits says nothing about its connection, which stays open.
func TestStream_CallersLeave(t *testing.T) {
	noLeaks(t)
	const left = 50
	arrived := make(chan struct{}, left+1)
	s := serveStream(t, func(conn net.Conn) {
		_ = replyTo(t, conn, func(query *dns.Msg) []byte {
			arrived <- struct{}{}
			if strings.HasPrefix(query.Question[0].Name, "left") {
				return nil
			}
			return good(t, query)
		})
	})
	s.TCP = true
	c := newClient(t, upstream.Config{TryTimeout: time.Minute, Timeout: time.Minute}, s)
	defer run(t, c)()
	for i := range left {
		ctx, leave := context.WithCancel(t.Context())
		var caller sync.WaitGroup
		caller.Go(func() {
			if _, err := c.Exchange(ctx, ask(fmt.Sprintf("left%d.example.com.", i))); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that left got %v", err)
			}
		})
		<-arrived
		leave()
		caller.Wait()
	}
	expect(t, c, "192.0.2.1")
	if got := s.conns.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// Queries share a connection, and replies arrive in any order. Replies that do not match
// a query are ignored.
func TestStream_Pipelining(t *testing.T) {
	noLeaks(t)
	const n = 10
	s := serveStream(t, func(conn net.Conn) { replyReversed(t, conn, n) })
	c := newClient(t, upstream.Config{}, s)
	defer run(t, c)()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if got := addresses(t, c, fmt.Sprintf("n%d.example.com.", i)); got != "192.0.2.1" {
				t.Errorf("query %d: %s", i, got)
			}
		})
	}
	all.Wait()
	if got := s.conns.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

// replyReversed reads n queries and replies to the last one first, each time with a reply
// that does not match.
func replyReversed(t testing.TB, conn net.Conn, n int) {
	var replies [][]byte
	for len(replies) < 2*n {
		wire, err := readQuery(conn)
		if err != nil {
			return
		}
		query := parse(t, wire)
		wrong := reply(query, 0, "203.0.113.66")
		wrong.Question[0].Qtype = dns.TypeAAAA
		replies = append(replies, frame(good(t, query)), frame(pack(t, wrong)))
	}
	for _, m := range slices.Backward(replies) {
		conn.Write(m)
	}
	readQuery(conn) // until the client closes the connection
}

// A connection has at most 64 queries at a time: the server may not read more before it has replied.
func TestStream_ManySlowQueries(t *testing.T) {
	noLeaks(t)
	for _, tt := range []struct {
		queries int
		conns   int64
	}{{64, 1}, {65, 2}, {129, 3}} {
		arrived, release := make(chan struct{}, tt.queries), make(chan struct{})
		s := serveReleased(t, arrived, release)
		c := newClient(t, upstream.Config{TryTimeout: time.Minute, Timeout: time.Minute, IdleTimeout: time.Minute}, s)
		stop := run(t, c)
		var all sync.WaitGroup
		for i := range tt.queries {
			all.Go(func() {
				if got := addresses(t, c, fmt.Sprintf("slow%d.example.com.", i)); got != "192.0.2.1" {
					t.Errorf("slow query %d of %d: %s", i, tt.queries, got)
				}
			})
		}
		for range tt.conns {
			<-arrived // the server has read a query of each connection, and no other one
		}
		close(release)
		all.Wait()
		stop()
		if got := s.conns.Load(); got != tt.conns {
			t.Errorf("%d connections for %d queries at once, want %d", got, tt.queries, tt.conns)
		}
	}
}

// A wrong length closes the connection: octets where a header should be are not a reply.
func TestStream_WrongLength(t *testing.T) {
	noLeaks(t)
	for name, wrong := range map[string]func(reply []byte) []byte{
		"shorter than a header": func([]byte) []byte { return []byte{0, 4, 1, 2, 3, 4} },
		"empty":                 func([]byte) []byte { return []byte{0, 0} },
		"one octet too little":  func(m []byte) []byte { f := append(frame(m), frame(m)...); f[1]--; return f },
		"a query":               func(m []byte) []byte { m[2] &^= 0x80; return frame(m) },
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan bool, 10)
			s := serveStream(t, func(conn net.Conn) {
				wire, err := readQuery(conn)
				if err != nil {
					return
				}
				query := parse(t, wire)
				query.Id++ // not the waiting query's
				conn.Write(wrong(good(t, query)))
				conn.SetReadDeadline(time.Now().Add(time.Minute))
				_, err = readQuery(conn)
				closed <- errors.Is(err, io.EOF)
			})
			s.TCP = true
			c := newClient(t, upstream.Config{TryTimeout: time.Minute, Timeout: time.Minute, IdleTimeout: time.Hour}, s)
			defer run(t, c)()
			expect(t, c, "error: no upstream server replied")
			if !<-closed {
				t.Error("the connection is still open")
			}
		})
	}
}

// Many servers close the connection after each reply, or when the next query arrives, which is lost. The query is
// sent again.
func TestStream_ServerCloses(t *testing.T) {
	noLeaks(t)
	for name, onQuery := range map[string]bool{"after the reply": false, "on the next query": true} {
		t.Run(name, func(t *testing.T) {
			s := serveStream(t, func(conn net.Conn) {
				if wire, err := readQuery(conn); err == nil {
					conn.Write(frame(good(t, parse(t, wire))))
				}
				if onQuery {
					readQuery(conn)
				}
			})
			c := newClient(t, upstream.Config{}, s)
			defer run(t, c)()
			for i := range 20 {
				if got := addresses(t, c, fmt.Sprintf("n%d.example.com.", i)); got != "192.0.2.1" {
					t.Errorf("query %d: %s", i, got)
				}
			}
			if got := c.Status(); got[0].Down {
				t.Error("a closed connection counts as a failure")
			}
		})
	}
}

// brokenStreams are the ways in which a server fails after a query over TCP.
func brokenStreams(t testing.TB) map[string]func(conn net.Conn, query []byte) {
	return map[string]func(conn net.Conn, query []byte){
		"closes":          func(net.Conn, []byte) {},
		"cut in the size": func(conn net.Conn, _ []byte) { conn.Write([]byte{0}) },
		"cut in the message": func(conn net.Conn, query []byte) {
			m := frame(good(t, parse(t, query)))
			conn.Write(m[:len(m)-1])
		},
		"size zero":   func(conn net.Conn, _ []byte) { conn.Write([]byte{0, 0}) },
		"garbage":     func(conn net.Conn, _ []byte) { conn.Write(frame([]byte("this is not a DNS message"))) },
		"silent":      func(conn net.Conn, _ []byte) { io.Copy(io.Discard, conn) },
		"slow octets": func(conn net.Conn, query []byte) { writeSlowly(conn, frame(good(t, parse(t, query)))) },
		"truncated": func(conn net.Conn, query []byte) {
			conn.Write(frame(truncated(t, parse(t, query))))
			io.Copy(io.Discard, conn)
		},
		"wrong ID": func(conn net.Conn, query []byte) {
			query[1]++
			conn.Write(frame(good(t, parse(t, query))))
			io.Copy(io.Discard, conn)
		},
	}
}

// serveBroken starts a server that passes the first query of a connection to stream.
func serveBroken(t testing.TB, stream func(conn net.Conn, query []byte)) *fake {
	t.Helper()
	return serveStream(t, func(conn net.Conn) {
		if query, err := readQuery(conn); err == nil {
			stream(conn, query)
		}
	})
}

// writeSlowly writes an octet at a time until the client closes the connection.
func writeSlowly(conn net.Conn, message []byte) {
	for _, b := range message {
		if _, err := conn.Write([]byte{b}); err != nil {
			return
		}
		conn.SetReadDeadline(time.Now().Add(short / 10))
		if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
			return
		}
	}
}

// After any failure of a connection the next server is tried in time.
func TestStream_Failures(t *testing.T) {
	noLeaks(t)
	for name, stream := range brokenStreams(t) {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, Run %t", name, running), func(t *testing.T) {
				bad := serveBroken(t, stream)
				second := serve(t, always(t, 0, "192.0.2.2"))
				// On a busy machine the second server may reply before the first one truncates its reply.
				poll.Until(t, "a query over TCP to the bad server", func() bool {
					c := newClient(t, upstream.Config{}, bad, second)
					if running {
						defer run(t, c)()
					}
					expect(t, c, "192.0.2.2")
					return bad.conns.Load() > 0
				})
			})
		}
	}
}

// If TCP does not work, the truncated reply is returned after all servers have been
// tried, and no server is down.
func TestStream_NoTCP(t *testing.T) {
	noLeaks(t)
	s := serveStream(t, func(net.Conn) {})
	c := newClient(t, upstream.Config{}, s, s)
	for range 3 {
		m, err := c.Exchange(t.Context(), ask("www.example.com."))
		if err != nil || !m.Truncated || c.Status()[0].Down {
			t.Errorf("%v, %v, %+v", err, m, c.Status())
		}
	}
}

// A connection on which no reply arrives is not reused.
func TestStream_DeadConnection(t *testing.T) {
	var conns atomic.Int64
	s := serveStream(t, func(conn net.Conn) {
		dead := conns.Add(1) == 1
		_ = replyTo(t, conn, func(query *dns.Msg) []byte {
			if dead {
				return nil
			}
			return good(t, query)
		})
	})
	c := newClient(t, upstream.Config{TryTimeout: upstream.DefaultTryTimeout}, s)
	defer run(t, c)()
	expect(t, c, "NOERROR") // truncated, and without records
	expect(t, c, "192.0.2.1")
}

// The client closes an idle connection.
func TestStream_Idle(t *testing.T) {
	noLeaks(t)
	ended := make(chan error, 10)
	s := serveStream(t, func(conn net.Conn) {
		ended <- replyTo(t, conn, func(query *dns.Msg) []byte { return good(t, query) })
	})
	c := newClient(t, upstream.Config{IdleTimeout: short / 10}, s)
	run(t, c)
	expect(t, c, "192.0.2.1")
	if err := <-ended; err != io.EOF {
		t.Errorf("the connection ended with %v", err)
	}
	expect(t, c, "192.0.2.1") // over a new connection
}

func TestStream_TLS(t *testing.T) {
	noLeaks(t)
	authority := certs.NewAuthority(t)
	pool, other := authority.Pool(), certs.NewAuthority(t).Pool()
	cert := must.Get(tls.X509KeyPair(authority.Issue(t, time.Hour, "dns.example", "127.0.0.1")))(t)
	s := serveStream(t, func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		_ = replyTo(t, secure, func(query *dns.Msg) []byte { return good(t, query) })
	})
	s.TLS = true
	s.Name = "dns.example"
	c := newClient(t, upstream.Config{RootCAs: pool}, s)
	defer run(t, c)()
	for range 5 {
		expect(t, c, "192.0.2.1")
	}
	if got := s.conns.Load(); got != 1 || s.overUDP.Load() != 0 {
		t.Errorf("%d connections, want 1; %d queries in clear text", got, s.overUDP.Load())
	}
	tests := []struct {
		name, certName string
		roots          *x509.CertPool
		want           string
	}{
		{"the certificate's name", "dns.example", pool, "192.0.2.1"},
		{"its address", "", pool, "192.0.2.1"},
		{"another name", "dns.example.com", pool, "certificate is valid for dns.example, not dns.example.com"},
		{"another authority", "dns.example", other, "certificate signed by unknown authority"},
		{"the system's authorities", "dns.example", nil, "certificate signed by unknown authority"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.Name = tt.certName
			c := newClient(t, upstream.Config{RootCAs: tt.roots}, s)
			run(t, c)
			expect(t, c, tt.want)
		})
	}
}
