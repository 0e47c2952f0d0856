// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// packet is a query that arrived at a socket.
type packet struct {
	*dns.Msg
	from netip.AddrPort
}

// listen returns a socket of a server, and its queries.
func listen(t *testing.T) (conn *net.UDPConn, queries chan packet, s *fake) {
	t.Helper()
	conn = must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	queries = make(chan packet, 1000)
	ended := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-ended })
	go func() {
		defer close(ended)
		var buf [4096]byte
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf[:])
			if err != nil {
				return
			}
			queries <- packet{parse(t, buf[:n]), from}
		}
	}()
	return conn, queries, &fake{Server: upstream.Server{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}}
}

// TestExchange_Ports: a port is used for at most 32 queries, each with another ID, and the ports are
// spread over the range of the kernel.
func TestExchange_Ports(t *testing.T) {
	noLeaks(t)
	conn, queries, s := listen(t)
	c := newClient(t, upstream.Config{}, s)
	const total = 640
	ids := map[uint16]map[uint16]bool{}
	lowest, highest := uint16(1<<16-1), uint16(0)
	for i := range total {
		go c.Exchange(t.Context(), ask(fmt.Sprintf("n%d.example.", i)))
		q := <-queries
		conn.WriteToUDPAddrPort(good(t, q.Msg), q.from)
		port := q.from.Port()
		if ids[port] == nil {
			ids[port] = map[uint16]bool{}
		}
		if ids[port][q.Id] {
			t.Errorf("port %d: ID %d twice", port, q.Id)
		}
		ids[port][q.Id] = true
		lowest, highest = min(lowest, port), max(highest, port)
		if n := len(ids[port]); n > 32 {
			t.Errorf("port %d: %d queries", port, n)
		}
	}
	if len(ids) < total/32 || highest-lowest < 5000 { // of 28,232: the chance of less is 1 in 10 million
		t.Errorf("%d ports from %d to %d for %d queries", len(ids), lowest, highest, total)
	}
}

// TestExchange_LostPacket: a query is sent once again, with the same ID and port, long before the server counts as failed.
func TestExchange_LostPacket(t *testing.T) {
	noLeaks(t)
	conn, queries, s := listen(t)
	c := newClient(t, upstream.Config{TryTimeout: time.Hour, Timeout: time.Hour}, s)
	defer run(t, c)()
	go func() {
		lost, again := <-queries, <-queries
		if again.Id != lost.Id || again.from != lost.from {
			t.Errorf("sent %d from %v, then %d from %v", lost.Id, lost.from, again.Id, again.from)
		}
		conn.WriteToUDPAddrPort(good(t, again.Msg), again.from)
	}()
	expect(t, c, "192.0.2.1")
	if n := len(queries); n > 0 {
		t.Errorf("sent %d times, want twice", n+2)
	}
}

// TestExchange_SharedSocket: replies in reverse order, replies with the ID of another query, and two
// replies to a query reach their queries only.
func TestExchange_SharedSocket(t *testing.T) {
	noLeaks(t)
	conn, queries, s := listen(t)
	c := newClient(t, upstream.Config{}, s)
	defer run(t, c)()
	const total = 20
	var all sync.WaitGroup
	for i := range total {
		all.Go(func() {
			if got, want := addresses(t, c, fmt.Sprintf("n%d.example.", i)), fmt.Sprintf("192.0.2.%d", i); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	var arrived []packet
	for range total {
		arrived = append(arrived, <-queries)
	}
	if first, last := arrived[0].from, arrived[total-1].from; first != last {
		t.Fatalf("the queries come from %v and %v", first, last)
	}
	for i := range total {
		q, next := arrived[total-1-i], arrived[(2*total-2-i)%total]
		var number int
		fmt.Sscanf(q.Question[0].Name, "n%d.", &number)
		right := reply(q.Msg, 0, fmt.Sprintf("192.0.2.%d", number))
		if i < 10 { // fewer than lead to TCP
			wrong := *right
			wrong.Id = next.Id
			conn.WriteToUDPAddrPort(pack(t, &wrong), q.from)
		}
		for range 2 {
			conn.WriteToUDPAddrPort(pack(t, right), q.from)
		}
	}
	all.Wait()
}

// TestExchange_LateReplies: replies to queries that are not awaited any more are not taken for forged
// ones, after which the next query would be sent over TCP.
func TestExchange_LateReplies(t *testing.T) {
	noLeaks(t)
	conn, queries, s := listen(t)
	c := newClient(t, upstream.Config{}, s)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var arrived []packet
	for i := range 25 {
		all.Go(func() { c.Exchange(ctx, ask(fmt.Sprintf("n%d.example.", i))) })
		arrived = append(arrived, <-queries)
	}
	cancel()
	all.Wait()
	all.Go(func() { expect(t, c, "192.0.2.1") })
	q := <-queries
	if q.from != arrived[24].from {
		t.Errorf("the query comes from %v, those before it from %v", q.from, arrived[24].from)
	}
	for _, late := range append(arrived, q) {
		conn.WriteToUDPAddrPort(good(t, late.Msg), late.from)
	}
	all.Wait()
}

// TestExchange_IdleSocket: a socket that is not used is closed, also if Run is never called.
func TestExchange_IdleSocket(t *testing.T) {
	noLeaks(t)
	s := serve(t, always(t, dns.RcodeSuccess, "192.0.2.1"))
	c := upstream.New(upstream.Config{Servers: []upstream.Server{s.Server}})
	expect(t, c, "192.0.2.1")
}

// TestRun_SilentServer: the first of two servers is silent. No query fails. The server gets
// a query and then probes, until it replies to one.
func TestRun_SilentServer(t *testing.T) {
	noLeaks(t)
	var replies atomic.Bool
	var queries, probes atomic.Int64
	first := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if query.Question[0].Qtype == dns.TypeSOA && query.Question[0].Name == "corp.example." {
			probes.Add(1)
		} else {
			queries.Add(1)
		}
		if !replies.Load() {
			return nil
		}
		return [][]byte{pack(t, reply(query, 0, "192.0.2.1"))}
	})
	second := serve(t, always(t, 0, "192.0.2.2"))
	registry := prometheus.NewRegistry()
	cfg := upstream.Config{TryTimeout: upstream.DefaultTryTimeout, Zone: "corp.example.", Metrics: upstream.NewMetrics(registry)}
	c := newClient(t, cfg, first, second)
	run(t, c)
	for i := range 100 {
		if got := addresses(t, c, fmt.Sprintf("n%d.corp.example.", i)); got != "192.0.2.2" {
			t.Errorf("query %d: %s", i, got)
		}
	}
	if n := queries.Load(); n < 1 || n > 50 { // more than one if the second server is slow on a busy machine
		t.Errorf("the silent server got %d of 100 queries", n)
	}
	poll.Until(t, "the overtaken query in the metrics", func() bool {
		series := series(t, registry, map[string]*fake{"first": first, "second": second})
		return strings.Contains(series, "attempts_total udp overtaken first corp.example. = ")
	})
	poll.Until(t, "two failed probes", func() bool { return c.Status()[0].Down })
	replies.Store(true)
	poll.Until(t, "the server is up", func() bool { return !c.Status()[0].Down })
	expect(t, c, "192.0.2.1")
	if n := probes.Load(); n < 2 || n > 10 {
		t.Errorf("%d probes", n)
	}
}

// TestRun_RemovedServer: a server that was removed is not probed again.
func TestRun_RemovedServer(t *testing.T) {
	noLeaks(t)
	first, second := serve(t, silent), serve(t, always(t, 0, "192.0.2.2"))
	c := newClient(t, upstream.Config{TryTimeout: upstream.DefaultTryTimeout}, first, second)
	stop := run(t, c)
	expect(t, c, "192.0.2.2")
	poll.Until(t, "two failures", func() bool { return c.Status()[0].Down })
	c.SetServers([]upstream.Server{second.Server})
	stop() // at once: noLeaks finds a goroutine that goes on
	expect(t, c, "192.0.2.2")
}

// TestExchange_IterativeNotCounted: servers may drop queries without RD. That does not count as a failure.
func TestExchange_IterativeNotCounted(t *testing.T) {
	s := serve(t, func(_ string, query *dns.Msg) [][]byte {
		if !query.RecursionDesired {
			return nil
		}
		return [][]byte{good(t, query)}
	})
	c := newClient(t, upstream.Config{TryTimeout: short / 3, Timeout: short}, s)
	for i := range 3 {
		query := ask(fmt.Sprintf("n%d.example.", i))
		query.RecursionDesired = false
		if m, err := c.Exchange(t.Context(), query); err == nil {
			t.Errorf("got %v", m)
		}
	}
	if c.Status()[0].Down {
		t.Error("the server is down")
	}
}
