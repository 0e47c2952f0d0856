// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// largeReply is the reply with a TXT RRset of 62 kB for names that begin with "large", and with
// validAddr for all others.
func largeReply(t *testing.T, q *dns.Msg) *dns.Msg {
	name := q.Question[0].Name
	if !strings.HasPrefix(name, "large") {
		return newReply(t, q, validAddr)
	}
	m := new(dns.Msg).SetReply(q)
	for i := range 240 {
		m.Answer = append(m.Answer, &dns.TXT{
			Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 3600},
			Txt: []string{fmt.Sprintf("%03d", i) + strings.Repeat("x", 243)},
		})
	}
	return m
}

// TestServeTCP_UnreadReplies has 100 connections, of one client or of 100, that send 64 queries
// for a reply of 62 kB and read nothing. The replies that wait stay within the budgets. Another
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
			queries := bytes.Repeat(frame(mustPack(t, large)), DefaultMaxConnectionQueries)
			for i := range 100 {
				c := s.dialFrom(t, netip.AddrFrom4([4]byte{127, 0, 2, byte(1 + i%clients)}))
				c.(*net.TCPConn).SetReadBuffer(4096)
				conns = append(conns, c)
				c.Write(queries)
			}
			octets := s.streamLimits.octets
			highest := 0
			watch := func() {
				octets.mu.Lock()
				defer octets.mu.Unlock()
				highest = max(highest, int(octets.used))
				if octets.used > DefaultMaxReplyOctets {
					t.Errorf("%d octets wait, want at most %d", octets.used, DefaultMaxReplyOctets)
				}
				for client, n := range octets.clients {
					if n > DefaultMaxClientReplyOctets {
						t.Errorf("%d octets of %v wait, want at most %d", n, client, DefaultMaxClientReplyOctets)
					}
				}
			}
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
				return octets.inUse() == 0 && s.streamLimits.queries.inUse() == 0
			})
			if highest < 62_000 {
				t.Errorf("at most %d octets waited: the test has not reached the limits", highest)
			}
			slow := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason=slow")
			room := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason=octets")
			if slow+room != 100 || (clients == 1) != (room > 0) {
				t.Errorf("closed: %d slow ones, %d without room, want 100 together", slow, room)
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
				for i := range DefaultMaxConnectionQueries {
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
				for i := range DefaultMaxConnectionQueries {
					c.SetReadDeadline(time.Now().Add(time.Minute))
					m, err := readReply(c)
					if err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0 || seen[m.Id] {
						t.Fatalf("%s, reply %d: got %v, %v", round, i+1, m, err)
					}
					seen[m.Id] = true
					if i == DefaultMaxConnectionQueries-2 && round == "upstream" {
						if seen[0] {
							t.Error("the slow query was answered before the others")
						}
						close(slow)
					}
				}
			}
			if n := arrived.Load(); n > 2*DefaultMaxConnectionQueries {
				t.Errorf("%d queries to upstream servers for %d names", n, DefaultMaxConnectionQueries+1)
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
		server, client := net.Pipe()
		var serving sync.WaitGroup
		serving.Go(func() {
			defer server.Close()
			s.serveStream(t.Context(), server, newStreams(DefaultMaxConnections, DefaultMaxClientConnections))
		})
		written := atomic.Int32{}
		serving.Go(func() {
			for i := range DefaultMaxConnectionQueries {
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
		if n := s.streamLimits.octets.inUse() + s.streamLimits.queries.inUse(); n != 0 {
			t.Errorf("%d units are still in use", n)
		}
	})
}

// TestServeStream_NoRoom: without room in a budget the answer waits for 5 seconds. Then the
// connection is closed.
func TestServeStream_NoRoom(t *testing.T) {
	for _, budgetName := range []string{"octets", "queries"} {
		for _, freed := range []time.Duration{0, messageTimeout - 2*limitPoll, messageTimeout + limitPoll} {
			t.Run(fmt.Sprintf("%s, room after %v", budgetName, freed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTestServer(t, smallCluster,
						Config{Upstream: func(_ context.Context, q *dns.Msg) (*dns.Msg, error) { return largeReply(t, q), nil }})
					b := map[string]*budget{"octets": s.streamLimits.octets, "queries": s.streamLimits.queries}[budgetName]
					b.mu.Lock()
					free := b.limit
					b.used = b.limit
					b.mu.Unlock()
					time.AfterFunc(freed, func() {
						b.mu.Lock()
						defer b.mu.Unlock()
						b.used -= free
					})
					if freed == 0 {
						synctest.Wait()
						time.Sleep(time.Nanosecond)
					}
					server, client := net.Pipe()
					var serving sync.WaitGroup
					serving.Go(func() {
						defer server.Close()
						s.serveStream(t.Context(), server, newStreams(DefaultMaxConnections, DefaultMaxClientConnections))
					})
					begin := time.Now()
					client.Write(frame(mustPack(t, parseQuery("large.example. TXT", false))))
					m, err := readReply(client)
					took := time.Since(begin)
					closed := s.counterSum(t, "dnsconfigurer_dns_tcp_closed_total", "reason="+budgetName)
					if freed < messageTimeout {
						if err != nil || len(m.Answer) != 240 || closed != 0 || took > freed+limitPoll {
							t.Errorf("after %v: got %v, want 240 records", took, err)
						}
					} else if err == nil || took != messageTimeout || closed != 1 {
						t.Errorf("after %v: got a reply or %v, %d connections closed", took, err, closed)
					}
					client.Close()
					serving.Wait()
				})
			})
		}
	}
}

// TestServeStream_QueriesLimited: a connection has MaxConnectionQueries in flight at most, and a client
// its share of MaxTCPQueries. The rest is answered after them.
func TestServeStream_QueriesLimited(t *testing.T) {
	const queries = 100
	for _, tt := range []struct {
		limits Limits
		want   int // in flight
	}{
		{Limits{}, DefaultMaxConnectionQueries},
		{Limits{MaxConnectionQueries: 2}, 2},
		{Limits{MaxConnectionQueries: queries}, queries},
		{Limits{MaxConnectionQueries: queries, MaxTCPQueries: MinConcurrent}, clientShare(MinConcurrent)},
	} {
		t.Run(fmt.Sprintf("%+v", tt.limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				waiting := func(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
					<-release
					return newReply(t, q, validAddr), nil
				}
				s := newTestServer(t, smallCluster, Config{Limits: tt.limits, Upstream: waiting})
				server, client := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() {
					defer server.Close()
					s.serveStream(t.Context(), server, newStreams(DefaultMaxConnections, DefaultMaxClientConnections))
				})
				serving.Go(func() {
					for i := range queries {
						if _, err := client.Write(frame(mustPack(t, parseQuery(fmt.Sprintf("n%d.example. A", i), false)))); err != nil {
							t.Error(err)
						}
					}
				})
				synctest.Wait()
				if n := s.slotPools[budgetOther].inUse(); n != tt.want {
					t.Errorf("%d queries are in flight, want %d", n, tt.want)
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
		})
	}
}

// TestNewStreamLimits: the budget of replies has the limits of the configuration.
func TestNewStreamLimits(t *testing.T) {
	for _, want := range []Limits{{MaxReplyOctets: DefaultMaxReplyOctets, MaxClientReplyOctets: DefaultMaxClientReplyOctets},
		{MaxReplyOctets: 2 * MinReplyOctets, MaxClientReplyOctets: MinReplyOctets}} {
		octets := newServer(t, smallCluster, Config{Limits: want}).streamLimits.octets
		if octets.limit != int64(want.MaxReplyOctets) || octets.clientLimit != int64(want.MaxClientReplyOctets) {
			t.Errorf("got %d and %d of a client, want %+v", octets.limit, octets.clientLimit, want)
		}
	}
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
		for j := range DefaultMaxConnectionQueries {
			queries = append(queries, frame(mustPack(t, parseQuery(fmt.Sprintf("slow%d-%d.example. A", i, j), false)))...)
		}
		c.Write(queries)
	}
	const share = 783 // 38 % of 2,048
	poll.Until(t, "the client has its share", func() bool { return s.streamLimits.queries.inUse() >= share })
	for i := range 20 {
		if got := addresses(s.exchange(t, "tcp", parseQuery(fmt.Sprintf("n%d.example. A", i), false))); got != validAddr {
			t.Errorf("another client: got %s", got)
		}
	}
	s.streamLimits.queries.mu.Lock()
	defer s.streamLimits.queries.mu.Unlock()
	if n := s.streamLimits.queries.clients[netip.MustParseAddr("127.0.2.1")]; n != share {
		t.Errorf("the client has %d queries in flight, want %d", n, share)
	}
}
