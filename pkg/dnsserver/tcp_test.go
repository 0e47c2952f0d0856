// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// frame returns a message as it is sent over TCP, after its length.
func frame(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
}

// TestServeStream_Timeouts: a connection ends after 10 seconds without a query, and 5 seconds
// after the first octet of a query that is not complete, however slowly the rest arrives.
func TestServeStream_Timeouts(t *testing.T) {
	query := frame(mustPack(t, parseQuery("web.default.svc.cluster.local. A", true)))
	for _, tt := range []struct {
		name string
		send func(c net.Conn) // until the server has closed the connection
		want time.Duration
	}{
		{"idle", func(net.Conn) {}, idleTimeout},
		{"one octet, then idle", func(c net.Conn) { c.Write(query[:1]) }, messageTimeout},
		{"the length, then idle", func(c net.Conn) { c.Write(query[:2]) }, messageTimeout},
		{"all but one octet, then idle", func(c net.Conn) { c.Write(query[:len(query)-1]) }, messageTimeout},
		{"an octet each second", func(c net.Conn) {
			for _, b := range query {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, messageTimeout},
		{"a query after nine seconds, then idle", func(c net.Conn) {
			time.Sleep(9 * time.Second)
			c.Write(query)
			io.ReadFull(c, make([]byte, 2))
		}, 9*time.Second + messageTimeout}, // the client does not read the rest of the reply
		{"a length above the maximum of queries", func(c net.Conn) { c.Write([]byte{0x10, 0x01}) }, 0},
		{"an empty message, then idle", func(c net.Conn) { c.Write([]byte{0, 0}) }, idleTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(t, smallCluster, Config{})
				begin := time.Now()
				client, serving := s.servePipe(t)
				var sending sync.WaitGroup
				sending.Go(func() { tt.send(client) })
				serving.Wait()
				if took := time.Since(begin); took != tt.want {
					t.Errorf("the connection ended after %v, want %v", took, tt.want)
				}
				sending.Wait()
			})
		})
	}
}

// dialFrom opens a connection from an address.
func (s *testServer) dialFrom(t *testing.T, client netip.Addr) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(client, 0))}
	return must.Get(d.Dial("tcp", s.addr.String()))(t)
}

// TestStreams_Replaced: without a free slot a new connection closes the one that its client has not
// used for the longest time, of the client with the most connections, also if a query waits there.
func TestStreams_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{MaxMemory: 4 << 20}
		all := newStreams(limits, newMetrics(nil, false))
		greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		var slots []*slot
		open := func(client netip.Addr) net.Conn {
			t.Helper()
			server, remote := net.Pipe()
			t.Cleanup(func() { remote.Close() })
			slot := all.add(server, client)
			if slot == nil {
				return nil
			}
			slots = append(slots, slot)
			return server
		}
		closed := func(c net.Conn) bool {
			c.SetReadDeadline(time.Unix(1, 0))
			_, err := c.Read(make([]byte, 1))
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		other := open(modest)
		time.Sleep(time.Second)
		conns := []net.Conn{}
		for range limits.maxConnections() {
			if c := open(greedy); c != nil {
				conns = append(conns, c)
			}
		}
		if n := limits.maxConnections() - limits.maxConnections()/16 - 1; len(conns) != n {
			t.Errorf("the greedy client has %d connections, want %d", len(conns), n)
		}
		time.Sleep(time.Second)
		slots[1].renew(time.Now()) // of the first connection of the greedy client
		if open(greedy) == nil || closed(conns[0]) || !closed(conns[1]) || closed(other) {
			t.Errorf("closed: the one in use %t, the idle one %t, another client's %t", closed(conns[0]), closed(conns[1]), closed(other))
		}
		if n := testutil.ToFloat64(all.metrics.closed[closedConnections]); n < 1 {
			t.Errorf("%v connections were counted as closed", n)
		}
		for range limits.maxConnections() / 16 { // of the reserve
			if open(modest) == nil {
				t.Fatal("a connection of a client that holds few is refused")
			}
		}
	})
}

// largeReply is the reply with a TXT RRset of 62 kB for names that begin with "large", and with
// validAddr for all others.
func largeReply(t *testing.T, q *dns.Msg) *dns.Msg {
	name := q.Question[0].Name
	if q.Question[0].Qtype != dns.TypeTXT {
		return newReply(t, q, validAddr)
	}
	m, records := new(dns.Msg).SetReply(q), 1
	if strings.HasPrefix(name, "large") {
		records = 240
	}
	for i := range records {
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 3600},
			Txt: []string{fmt.Sprintf("%03d", i) + strings.Repeat("x", 243)},
		})
	}
	return m
}

// TestServeStream_Pipelining: a client that reads gets the replies to 64 queries, short or of 62
// kB, from upstream and from the cache. A slow one is the last.
func TestServeStream_Pipelining(t *testing.T) {
	for _, prefix := range []string{"large", "short"} {
		t.Run(prefix, func(t *testing.T) {
			slow := make(chan struct{})
			var arrived atomic.Int32
			s := startServer(t, smallCluster, Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
				arrived.Add(1)
				if strings.HasSuffix(q.Question[0].Name, "slow.example.") {
					<-slow
				}
				return largeReply(t, q), nil
			}})
			for _, round := range []string{"upstream", "cache"} {
				c := s.dialFrom(t, netip.MustParseAddr("127.0.2.1"))
				defer c.Close()
				var queries []byte
				for i := range maxStreamQueries {
					name := fmt.Sprintf("%s%d.example.", prefix, i)
					if i == 0 && round == "upstream" {
						name = prefix + "slow.example."
					}
					q := new(dns.Msg).SetQuestion(name, dns.TypeTXT)
					q.Id = uint16(i)
					queries = append(queries, frame(mustPack(t, q))...)
				}
				c.Write(queries)
				seen := map[uint16]bool{}
				for i := range maxStreamQueries {
					c.SetReadDeadline(time.Now().Add(time.Minute))
					m, err := readReply(c)
					if err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0 || seen[m.Id] {
						t.Fatalf("%s, reply %d: got %v, %v", round, i+1, m, err)
					}
					seen[m.Id] = true
					if i == maxStreamQueries-2 && round == "upstream" {
						if seen[0] {
							t.Error("the slow query was answered before the others")
						}
						close(slow)
					}
				}
			}
			if n := arrived.Load(); n > 2*maxStreamQueries {
				t.Errorf("%d queries to upstream servers for %d names", n, maxStreamQueries+1)
			}
		})
	}
}

// readReply reads a reply of any length.
func readReply(c net.Conn) (*dns.Msg, error) {
	m, err := (&dns.Conn{Conn: c}).ReadMsg()
	return m, err
}

// TestServeStream_Backpressure: while a reply waits for the socket, at most one more query is
// read, and it is not answered.
func TestServeStream_Backpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int32
		s := newTestServer(t, smallCluster, Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			arrived.Add(1)
			return newReply(t, q, validAddr), nil
		}})
		client, serving := s.servePipe(t)
		written := atomic.Int32{}
		serving.Go(func() {
			for i := range maxStreamQueries {
				if _, err := client.Write(frame(mustPack(t, parseQuery(fmt.Sprintf("n%d.example. A", i), false)))); err != nil {
					return
				}
				written.Add(1)
				time.Sleep(time.Millisecond) // until the reply is written
			}
		})
		time.Sleep(messageTimeout - time.Millisecond)
		if written.Load() != 2 || arrived.Load() != 1 {
			t.Errorf("%d queries were read and %d answered while a reply waits, want 2 and 1", written.Load(), arrived.Load())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after %v: %v, want EOF", messageTimeout, err)
		}
		if n := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason=slow"); n != 1 {
			t.Errorf("%d connections were counted as slow, want 1", n)
		}
		client.Close()
		serving.Wait()
		s.expectFree(t)
	})
}

// TestServeStream_NoRoom: without a slot the answer waits for 5 seconds. Then the connection is closed.
func TestServeStream_NoRoom(t *testing.T) {
	for _, reason := range []closeReason{closedReplies, closedQueries} {
		for _, freed := range []time.Duration{0, messageTimeout - 2*limitPoll, messageTimeout + limitPoll} {
			t.Run(fmt.Sprintf("%s, room after %v", reason, freed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTestServer(t, smallCluster,
						Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return largeReply(t, q), nil }})
					l := map[closeReason]*limiter{closedReplies: s.streams.replies, closedQueries: s.streams.queries}[reason]
					l.maxPinned = l.limit // none is replaced
					full := l.admitAll(clientAddr(0), kindPlain, time.Now(), l.limit)
					for client := 1; l.inUse() < l.limit; client++ {
						full = append(full, l.admitAll(clientAddr(client), kindPlain, time.Now(), l.few)...)
					}
					if freed == 0 {
						releaseAll(full...)
					} else {
						time.AfterFunc(freed, func() { releaseAll(full...) })
					}
					client, serving := s.servePipe(t)
					begin := time.Now()
					client.Write(frame(mustPack(t, parseQuery("large.example. TXT", false))))
					m, err := readReply(client)
					took := time.Since(begin)
					closed := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason="+reason.String())
					if freed < messageTimeout {
						if err != nil || len(m.Answer) != 240 || closed != 0 || took > freed+limitPoll {
							t.Errorf("after %v: got %v, want 240 records", took, err)
						}
					} else if err == nil || took != messageTimeout || closed != 1 {
						t.Errorf("after %v: got a reply or %v, %d connections closed", took, err, closed)
					}
					client.Close()
					serving.Wait()
					time.Sleep(time.Second)
					s.expectFree(t)
					expectUnused(t, s.streams.connections)
				})
			})
		}
	}
}

// servePipe serves a connection, and returns the end of its client.
func (s *testServer) servePipe(t *testing.T) (net.Conn, *sync.WaitGroup) {
	t.Helper()
	server, client := net.Pipe()
	slot := s.streams.add(server, podAddr)
	serving := new(sync.WaitGroup)
	serving.Go(func() { newStream(s.Server, server, netip.AddrPortFrom(podAddr, 1), slot).serve(t.Context()) })
	return client, serving
}

// TestServeStream_QueriesLimited: a connection has 64 queries in flight at most. The rest is answered
// after them.
func TestServeStream_QueriesLimited(t *testing.T) {
	const queries = 100
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		waiting := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
			<-release
			return newReply(t, q, validAddr), nil
		}
		s := newTestServer(t, smallCluster, Config{Upstream: waiting})
		client, serving := s.servePipe(t)
		serving.Go(func() {
			for i := range queries {
				if _, err := client.Write(frame(mustPack(t, parseQuery(fmt.Sprintf("n%d.example. A", i), false)))); err != nil {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		if n := s.streams.queries.inUse(); n != maxStreamQueries {
			t.Errorf("%d queries are in flight, want %d", n, maxStreamQueries)
		}
		close(release)
		for i := range queries {
			if m, err := readReply(client); err != nil || m.Rcode != dns.RcodeSuccess {
				t.Fatalf("reply %d: %v, %v", i+1, m, err)
			}
		}
		client.Close()
		serving.Wait()
	})
}
