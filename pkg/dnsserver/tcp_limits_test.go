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
	serving.Go(func() {
		defer s.streams.remove(server, slot)
		defer server.Close()
		newStream(s.Server, server, podAddr, slot).serve(t.Context())
	})
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
