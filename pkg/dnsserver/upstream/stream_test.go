// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
)

// A connection serves many queries while Run runs, and one without it.
func TestReuse(t *testing.T) {
	noLeaks(t)
	for _, running := range []bool{true, false} {
		s := serve(t, func(network string, query *dns.Msg) [][]byte {
			if network == "udp" {
				return [][]byte{truncated(t, query)}
			}
			return [][]byte{good(t, query)}
		})
		c := newClient(t, upstream.Config{}, s)
		want := int64(5)
		if running {
			run(t, c)
			waitFor(t, c, "up.example.com.", s) // Run may not have begun yet
			want = 0
		}
		before := s.conns.Load()
		for range 5 {
			expect(t, c, "192.0.2.1")
		}
		if got := s.conns.Load() - before; got != want {
			t.Errorf("Run %t: %d new connections for five queries, want %d", running, got, want)
		}
	}
}

// waitFor asks until a connection of s has served two queries.
func waitFor(t *testing.T, c *upstream.Client, name string, s *fake) {
	t.Helper()
	for range 1000 {
		before := s.conns.Load()
		addresses(t, c, name)
		if before > 0 && s.conns.Load() == before {
			return
		}
	}
	t.Fatal("connections are not reused")
}

// Queries share a connection at the same time, and replies come in any order. What
// does not belong to a query is passed over.
func TestPipelining(t *testing.T) {
	noLeaks(t)
	const n = 10
	s := serveStream(t, func(conn net.Conn) {
		var replies [][]byte
		for {
			wire, err := readQuery(conn)
			if err != nil {
				return
			}
			query := parse(t, wire)
			if query.Question[0].Name == "up.example.com." {
				conn.Write(frame(good(t, query)))
				continue
			}
			wrong := reply(query, 0, "203.0.113.66")
			wrong.Question[0].Qtype = dns.TypeAAAA
			replies = append(replies, frame(good(t, query)), frame(pack(t, wrong)))
			if len(replies) == 2*n {
				for i := range replies { // last in, first out
					conn.Write(replies[len(replies)-1-i])
				}
			}
		}
	})
	c := newClient(t, upstream.Config{}, s)
	defer run(t, c)()
	waitFor(t, c, "up.example.com.", s)
	before := s.conns.Load()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if got := addresses(t, c, fmt.Sprintf("n%d.example.com.", i)); got != "192.0.2.1" {
				t.Errorf("query %d: %s", i, got)
			}
		})
	}
	all.Wait()
	if got := s.conns.Load() - before; got != 0 {
		t.Errorf("%d new connections", got)
	}
}

// The other side may close at any time, also after each reply, as many do. The query
// goes out once more.
func TestServerCloses(t *testing.T) {
	noLeaks(t)
	s := serveStream(t, func(conn net.Conn) {
		if wire, err := readQuery(conn); err == nil {
			conn.Write(frame(good(t, parse(t, wire))))
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
		t.Error("closing connections counts as failing")
	}
}

// One that closes as the next query arrives takes that query with it, and it goes out
// once more: every connection here answers one and reads two.
func TestServerClosesOnArrival(t *testing.T) {
	noLeaks(t)
	s := serveStream(t, func(conn net.Conn) {
		if wire, err := readQuery(conn); err == nil {
			conn.Write(frame(good(t, parse(t, wire))))
		}
		readQuery(conn)
	})
	c := newClient(t, upstream.Config{}, s)
	defer run(t, c)()
	for i := range 20 {
		if got := addresses(t, c, fmt.Sprintf("n%d.example.com.", i)); got != "192.0.2.1" {
			t.Errorf("query %d: %s", i, got)
		}
	}
}

// Whatever goes wrong with a connection, the next server is asked, in time.
func TestBadStreams(t *testing.T) {
	noLeaks(t)
	streams := map[string]func(conn net.Conn, query []byte){
		"closes":          func(net.Conn, []byte) {},
		"cut in the size": func(conn net.Conn, _ []byte) { conn.Write([]byte{0}) },
		"cut in the message": func(conn net.Conn, query []byte) {
			m := frame(good(t, parse(t, query)))
			conn.Write(m[:len(m)-1])
		},
		"size zero": func(conn net.Conn, _ []byte) { conn.Write([]byte{0, 0}) },
		"garbage":   func(conn net.Conn, _ []byte) { conn.Write(frame([]byte("this is no DNS message"))) },
		"silent":    func(conn net.Conn, _ []byte) { io.Copy(io.Discard, conn) },
		"one octet now and then": func(conn net.Conn, query []byte) { // its client leaves first
			for _, b := range frame(good(t, parse(t, query))) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				conn.SetReadDeadline(time.Now().Add(short / 10))
				if _, err := conn.Read(make([]byte, 1)); err == io.EOF {
					return
				}
			}
		},
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
	for name, stream := range streams {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, Run %t", name, running), func(t *testing.T) {
				bad := serveStream(t, func(conn net.Conn) {
					if query, err := readQuery(conn); err == nil {
						stream(conn, query)
					}
				})
				c := newClient(t, upstream.Config{TryTimeout: short}, bad, serve(t, always(t, 0, "192.0.2.2")))
				if running {
					defer run(t, c)()
				}
				expect(t, c, "192.0.2.2")
				if bad.conns.Load() == 0 {
					t.Error("the bad server was not asked over TCP")
				}
			})
		}
	}
}

// Where TCP does not work, the truncated reply is passed on after all servers have
// been asked, and nobody rests for it.
func TestNoTCP(t *testing.T) {
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

// A connection that has died without a word is not given to the next query.
func TestDeadConnection(t *testing.T) {
	var mu sync.Mutex
	conns := 0
	s := serveStream(t, func(conn net.Conn) {
		mu.Lock()
		conns++
		dead := conns == 1
		mu.Unlock()
		for {
			query, err := readQuery(conn)
			if err != nil {
				return
			}
			if !dead {
				conn.Write(frame(good(t, parse(t, query))))
			}
		}
	})
	c := newClient(t, upstream.Config{TryTimeout: short}, s)
	defer run(t, c)()
	expect(t, c, "NOERROR") // truncated, and without records
	expect(t, c, "192.0.2.1")
}

// A connection that nobody uses is closed by us.
func TestIdle(t *testing.T) {
	noLeaks(t)
	ended := make(chan error, 10)
	s := serveStream(t, func(conn net.Conn) {
		for {
			query, err := readQuery(conn)
			if err != nil {
				ended <- err
				return
			}
			conn.Write(frame(good(t, parse(t, query))))
		}
	})
	c := newClient(t, upstream.Config{IdleTimeout: short / 10}, s)
	stop := run(t, c)
	expect(t, c, "192.0.2.1")
	if err := <-ended; err != io.EOF {
		t.Errorf("the connection ended with %v", err)
	}
	stop()
	expect(t, c, "192.0.2.1") // Run is over, and things still work
}

func TestTLS(t *testing.T) {
	noLeaks(t)
	authority := certs.NewAuthority(t)
	pool, other := authority.Pool(), certs.NewAuthority(t).Pool()
	cert, err := tls.X509KeyPair(authority.Issue(t, time.Minute, "dns.example", "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	s := new(fake)
	s.listen(t, silent, func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		s.framed(t, secure, always(t, 0, "192.0.2.1"))
	})
	s.TLS = true
	tests := []struct {
		why, name string
		roots     *x509.CertPool
		want      string
	}{
		{"the certificate's name", "dns.example", pool, "192.0.2.1"},
		{"its address", "", pool, "192.0.2.1"},
		{"another name", "dns.example.com", pool, "certificate is valid for dns.example, not dns.example.com"},
		{"another authority", "dns.example", other, "certificate signed by unknown authority"},
		{"the system's authorities", "dns.example", nil, "certificate signed by unknown authority"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			s.Name = tt.name
			expect(t, newClient(t, upstream.Config{RootCAs: tt.roots}, s), tt.want)
		})
	}
	s.Name = "dns.example"
	c := newClient(t, upstream.Config{RootCAs: pool}, s)
	defer run(t, c)()
	waitFor(t, c, "up.example.com.", s)
	before := s.conns.Load()
	for range 5 {
		expect(t, c, "192.0.2.1")
	}
	if got := s.conns.Load() - before; got != 0 || s.overUDP.Load() != 0 {
		t.Errorf("%d new connections, %d queries in clear text", got, s.overUDP.Load())
	}
}
