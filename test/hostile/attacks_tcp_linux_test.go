// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// session is what a hostile client does with one connection.
type session func(context.Context, *attacker, *net.TCPConn)

// streams returns an attack with a number of connections of one client at a time. Each runs
// session, and is opened again when it has ended, perSecond times a second at most for all.
func streams(name, rate string, connections, perSecond int, session session) attack {
	run := func(ctx context.Context, a *attacker) {
		connect(ctx, a, a.to.String(), 1, connections, perSecond, session)
	}
	return attack{name, rate, run, leadTime}
}

// clientStreams is streams of a number of clients, each with a number of connections.
func clientStreams(name string, clients, each int, session session) attack {
	run := func(ctx context.Context, a *attacker) {
		connect(ctx, a, a.to.String(), clients, clients*each, clients*each, session)
	}
	return attack{name, fmt.Sprintf("%d clients, %d open each", clients, each), run, leadTime}
}

// httpStreams is streams to the port of the metrics.
func httpStreams(name, rate string, connections, perSecond int, session session) attack {
	run := func(ctx context.Context, a *attacker) {
		connect(ctx, a, a.http, 1, connections, perSecond, session)
	}
	return attack{name, rate, run, leadTime}
}

func connect(ctx context.Context, a *attacker, to string, clients, connections, perSecond int, session session) {
	opened := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	for i := range connections {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr(i%clients), 0))}
		running.Go(func() {
			for range opened {
				c, err := dialer.DialContext(ctx, "tcp", to)
				if err != nil {
					continue // the server is at a limit, or the attack is over
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				session(ctx, a, c.(*net.TCPConn))
				stop()
				_ = c.Close()
			}
		})
	}
	defer close(opened)
	tick := time.NewTicker(time.Second / ticks)
	defer tick.Stop()
	for due := 0.0; ctx.Err() == nil; {
		<-tick.C
		for due += a.pace * float64(perSecond) / ticks; due >= 1; due-- {
			select {
			case opened <- struct{}{}:
			default: // all connections are open
			}
		}
	}
}

// hold waits until the connection is closed by the server or the attack is over. It reads
// nothing that has data to come: a peek costs the server nothing.
func hold(ctx context.Context, c *net.TCPConn) {
	_ = c.SetReadDeadline(time.Time{})
	_, _ = c.Read(make([]byte, 1))
	<-ctx.Done()
}

// framed returns a message with its length.
func framed(wire []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
}

// pipeline returns a session that sends queries and never reads. At the end the client resets
// the connection after pause.
func pipeline(queries int, pause time.Duration, packet func() []byte) session {
	return func(ctx context.Context, a *attacker, c *net.TCPConn) {
		_ = c.SetReadBuffer(4 << 10)
		sendAll(a, c, queries, pause, packet)
		wait(ctx, pause)
	}
}

// sendAll sends queries until the server takes none for the time patience.
func sendAll(a *attacker, c *net.TCPConn, queries int, patience time.Duration, packet func() []byte) {
	for range queries {
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.Write(framed(packet())); err != nil {
			return
		}
		a.sent.Add(1)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// idle is a session without a query.
func idle(ctx context.Context, a *attacker, c *net.TCPConn) {
	a.sent.Add(1)
	hold(ctx, c)
}

// trickle is a session that sends one octet of a long message every 100 ms.
func trickle(ctx context.Context, a *attacker, c *net.TCPConn) {
	message := append([]byte{0x0F, 0xFF}, make([]byte, 4095)...)
	for i := range message {
		if _, err := c.Write(message[i : i+1]); err != nil || ctx.Err() != nil {
			return
		}
		a.sent.Add(1)
		wait(ctx, 100*time.Millisecond)
	}
}

// churn is a session that ends at once: with a reset, or in the middle of a query.
func churn(_ context.Context, a *attacker, c *net.TCPConn) {
	if a.sent.Add(1)%2 == 0 {
		_ = c.SetLinger(0)
		return
	}
	_, _ = c.Write(framed(pack(new(dns.Msg).SetQuestion("web-1.default.svc.cluster.local.", dns.TypeA)))[:20])
}

// exchanges returns a session that sends a query after each reply, but not before interval has passed
// since the query before: a refusal comes at once, and without an interval 1,120 connections sent 53,000
// queries a second.
func exchanges(interval time.Duration, packet func() []byte) session {
	return func(ctx context.Context, a *attacker, c *net.TCPConn) {
		for ctx.Err() == nil {
			next := time.Now().Add(interval)
			if _, err := c.Write(framed(packet())); err != nil {
				return
			}
			a.sent.Add(1)
			var length [2]byte
			if _, err := io.ReadFull(c, length[:]); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint16(length[:]))); err != nil {
				return
			}
			if left := time.Until(next); left > 0 { // else without a pause, in which the connection would be idle
				wait(ctx, left)
			}
		}
	}
}

// halfClosed is a session that sends a query, shuts down its side, and reads until the server closes.
func halfClosed(_ context.Context, a *attacker, c *net.TCPConn) {
	_, _ = c.Write(framed(askSilent()))
	a.sent.Add(1)
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// halfClosedUnread is a session that sends queries for a large set, shuts down its side, and never reads.
func halfClosedUnread(ctx context.Context, a *attacker, c *net.TCPConn) {
	_ = c.SetReadBuffer(4 << 10)
	const patience = 10 * time.Second
	sendAll(a, c, 64, patience, askLarge)
	_ = c.CloseWrite()
	wait(ctx, patience)
}

// sip is a session that queries a large set and reads ten octets of the replies a second.
func sip(ctx context.Context, a *attacker, c *net.TCPConn) {
	_ = c.SetReadBuffer(4 << 10)
	packet := framed(askLarge())
	for octet := make([]byte, 1); ctx.Err() == nil; wait(ctx, 100*time.Millisecond) {
		if _, err := c.Write(packet); err != nil {
			return
		}
		a.sent.Add(1)
		if _, err := c.Read(octet); err != nil {
			return
		}
	}
}

// getMetrics is a session that reads the page of the metrics.
func getMetrics(_ context.Context, a *attacker, c *net.TCPConn) {
	a.sent.Add(1)
	_, _ = io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
}

// Packets of queries for names of the silent domain, and for a set of 64 kB.
var (
	askSilent = query(dns.TypeA, random(silentDomain))
	askLarge  = query(dns.TypeA, always("large.default.svc.cluster.local."))
)

// tcpAttacks are the attacks with connections.
var tcpAttacks = []attack{
	streams("idle connections", "1,200 open", 1200, 1200, idle),
	streams("slow writers", "500 open, 10 octets/s each", 500, 1000, trickle),
	streams("connections that end at once", "500/s", 50, 500, churn),
	streams("62 kB replies that are not read", "100 open, 64 queries each, every 2 s", 100, 200,
		pipeline(64, 2*time.Second, query(dns.TypeTXT, always(bigName)))),
	streams("64 kB of addresses that are not read", "100 open, 64 queries each, every 2 s", 100, 200,
		pipeline(64, 2*time.Second, askLarge)),
	streams("small replies that are not read", "20 open, 2,000 queries each, every 2 s", 20, 20,
		pipeline(2000, 2*time.Second, query(dns.TypeA, always("web-1.default.svc.cluster.local.")))),
	streams("silent domain over TCP", "100 open, 64 queries each", 100, 100,
		pipeline(64, 10*time.Second, askSilent)),
	streams("silent domain over TCP, many connections", "1,200 open, 2 queries each", 1200, 1200,
		pipeline(2, 10*time.Second, askSilent)),
	clientStreams("silent domain over TCP, 16 clients", 16, 70, exchanges(250*time.Millisecond, askSilent)).saturating(),
	clientStreams("silent domain over TCP, 8 clients", 8, 128, exchanges(250*time.Millisecond, askSilent)).saturating(),
	streams("half-closed connections", "1,200 open", 1200, 1200, halfClosed).saturating(),
	streams("half-closed connections that are not read", "100 open, 64 queries each", 100, 100, halfClosedUnread).saturating(),
	streams("slow readers of 64 kB", "200 open, 10 queries/s and octets/s each", 200, 400, sip),
	streams("64 kB of addresses", "20 open, 10 queries/s each", 20, 20,
		exchanges(100*time.Millisecond, askLarge)),
	streams("messages of 64 kB", "50 open", 50, 200, func(ctx context.Context, a *attacker, c *net.TCPConn) {
		message := append([]byte{0xFF, 0xFF}, make([]byte, 65535)...)
		_, _ = c.Write(message)
		a.sent.Add(1)
		wait(ctx, 200*time.Millisecond)
	}),
	httpStreams("pages of metrics", "50/s", 20, 50, getMetrics),
	httpStreams("idle connections for metrics", "1,200 open", 1200, 1200, idle),
}
