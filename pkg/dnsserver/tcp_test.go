// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
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

// TestServeStream_SlowQuery: a query just within the timeouts is answered.
func TestServeStream_SlowQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, smallCluster, Config{})
		client, _ := s.servePipe(t)
		query := frame(mustPack(t, parseQuery("web.default.svc.cluster.local. A", false)))
		for range 3 {
			time.Sleep(idleTimeout - time.Millisecond)
			client.Write(query[:1])
			time.Sleep(messageTimeout - time.Millisecond)
			client.Write(query[1:])
			client.SetReadDeadline(time.Time{})
			reply, err := readMessage(client)
			if m := new(dns.Msg); err != nil || m.Unpack(reply) != nil || addresses(m) != "10.96.0.7" {
				t.Fatalf("got %x, %v, want 10.96.0.7", reply, err)
			}
		}
		client.Close()
		synctest.Wait()
	})
}

// connections are the open connections of a test.
type connections []net.Conn

func (list connections) close() {
	for _, c := range list {
		c.Close()
	}
}

// dialStreams opens n connections of one client and sends the octets through each.
func (s *testServer) dialStreams(t *testing.T, n int, octets []byte) connections {
	t.Helper()
	var list connections
	for range n {
		c := s.dialFrom(t, netip.MustParseAddr("127.0.2.1"))
		list = append(list, c)
		c.Write(octets)
	}
	return list
}

// dialFrom opens a connection from an address.
func (s *testServer) dialFrom(t *testing.T, client netip.Addr) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(client, 0))}
	c, err := d.Dial("tcp", s.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// countResources returns how many goroutines and file descriptors the process has.
func countResources(t *testing.T) (goroutines, descriptors int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(entries)
}

// TestServeTCP_SlowClients opens 1.5 times the maximum of connections, each of which sends a
// query octet by octet. Queries over UDP and new TCP connections are answered meanwhile: the
// connection that has been idle for longest is closed. No goroutine or descriptor is left when
// the clients have closed theirs.
func TestServeTCP_SlowClients(t *testing.T) {
	s := startServer(t, smallCluster, Config{Limits: Limits{MaxMemory: 4 * MinMemory}})
	most := s.cfg.Limits.maxConnections()
	for _, network := range []string{"udp", "tcp"} { // starts all readers
		s.exchange(t, network, parseQuery("cluster.local. SOA", false))
	}
	goroutines, descriptors := countResources(t)

	query := frame(mustPack(t, parseQuery("web.default.svc.cluster.local. A", false)))
	slow := s.dialStreams(t, most*3/2, query[:1])
	defer slow.close()
	for i, octet := range query[1 : len(query)-1] {
		for _, c := range slow {
			c.Write([]byte{octet})
		}
		for _, network := range []string{"udp", "tcp"} {
			if got := addresses(s.exchange(t, network, parseQuery("web.default.svc.cluster.local. A", false))); got != "10.96.0.7" {
				t.Errorf("over %s, after %d octets of the slow queries: got %s, want 10.96.0.7", network, 2+i, got)
			}
		}
		if now, _ := countResources(t); now > goroutines+most+100 {
			t.Fatalf("got %d goroutines, %d before, for %d connections", now, goroutines, most)
		}
	}
	slow.close()
	poll.UntilNil(t, "the connections to be freed", func() error {
		if g, d := countResources(t); g > goroutines || d > descriptors {
			return fmt.Errorf("goroutines %d -> %d, descriptors %d -> %d", goroutines, g, descriptors, d)
		}
		return nil
	})
}

// TestStreams_Replaced: without a free slot a new connection closes the one that its client has not
// used for the longest time, of the client with the most connections, also if a query waits there.
func TestStreams_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{MaxMemory: MinMemory}
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

// TestServeTCP_UnreadReplies has 300 connections, of one client or of 100, that send 64 queries
// for a reply of 62 kB and read nothing. The replies that wait stay within their limit. Another
// client is answered over UDP and TCP, also from an upstream server. The connections are closed.
func TestServeTCP_UnreadReplies(t *testing.T) {
	for _, clients := range []int{1, 100} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			s := startServer(t, smallCluster,
				Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return largeReply(t, q), nil }})
			large := parseQuery("large.example. TXT", false)
			if m := s.exchange(t, "tcp", large); len(m.Answer) != 240 {
				t.Fatalf("%d records", len(m.Answer))
			}
			var conns connections
			defer func() { conns.close() }()
			queries := bytes.Repeat(frame(mustPack(t, large)), maxStreamQueries)
			for i := range 300 {
				c := s.dialFrom(t, netip.AddrFrom4([4]byte{127, 0, 2, byte(1 + i%clients)}))
				c.(*net.TCPConn).SetReadBuffer(4096)
				conns = append(conns, c)
				c.Write(queries)
			}
			highest := 0
			watch := func() { highest = max(highest, s.streams.replies.inUse()) }
			for i := range 50 {
				watch()
				for _, network := range []string{"udp", "tcp"} {
					if got := addresses(s.exchange(t, network, parseQuery("web.default.svc.cluster.local. A", false))); got != "10.96.0.7" {
						t.Errorf("name of the cluster over %s: got %s", network, got)
					}
					if got := addresses(
						s.exchange(t, network, parseQuery(fmt.Sprintf("%s%d.example. A", network, i), false))); got != validAddr {
						t.Errorf("upstream name over %s: got %s", network, got)
					}
				}
			}
			poll.Until(t, "all connections are closed", func() bool {
				watch()
				return s.streams.replies.inUse() == 0 && s.streams.queries.inUse() == 0 && s.streams.connections.inUse() == 0
			})
			if most := s.cfg.Limits.maxReplies(); highest < most/2 || highest > most {
				t.Errorf("at most %d replies waited, want up to %d", highest, most)
			}
			slow := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason=slow")
			room := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason=replies")
			if slow+room < 300 {
				t.Errorf("closed: %d slow ones, %d without room, want 300 together", slow, room)
			}
		})
	}
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
	serving.Go(func() { newStream(s.Server, server, podAddr, slot).serve(t.Context()) })
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

// TestServeStream_GreedyClient: one client with 40 connections of 64 slow queries each does not
// stop the queries of another one over TCP.
func TestServeStream_GreedyClient(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s := startServer(t, smallCluster, Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
		if strings.HasPrefix(q.Question[0].Name, "slow") {
			<-release
		}
		return newReply(t, q, validAddr), nil
	}})
	var conns connections
	defer func() { conns.close() }()
	for i := range 40 {
		c := s.dialFrom(t, netip.MustParseAddr("127.0.2.1"))
		conns = append(conns, c)
		var queries []byte
		for j := range maxStreamQueries {
			queries = append(queries, frame(mustPack(t, parseQuery(fmt.Sprintf("slow%d-%d.example. A", i, j), false)))...)
		}
		c.Write(queries)
	}
	poll.Until(t, "the queries of the client", func() bool { return s.streams.queries.inUse() == 40*maxStreamQueries })
	for i := range 20 {
		if got := addresses(s.exchange(t, "tcp", parseQuery(fmt.Sprintf("n%d.example. A", i), false))); got != validAddr {
			t.Errorf("another client: got %s", got)
		}
	}
}
