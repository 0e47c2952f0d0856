// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/semaphore"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// From any octets on a connection, only a matching reply is returned, and the connection
// ends.
func FuzzStream(f *testing.F) {
	q := must.Get(newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil))(f)
	reply := append([]byte(nil), q.withoutEDNS()...)
	reply[2] |= 0x80
	f.Add(reply, []byte{})
	f.Add(q.wire, []byte{0, 0})
	f.Add(reply[:12], []byte{0xFF, 0xFF, 1})
	f.Add(append(reply, 0xC0, byte(len(reply)), 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1), []byte{0, 1, 0})
	f.Fuzz(func(t *testing.T, first, rest []byte) {
		local, remote := net.Pipe()
		c := newStreamConn(func(context.Context) (net.Conn, error) { return local, nil }, time.Minute, semaphore.NewWeighted(maxLong))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.run()
		}()
		go func() { // the server: reads the query, and sends the first message with its ID
			defer remote.Close()
			query := make([]byte, 2+len(q.wire))
			if _, err := io.ReadFull(remote, query); err != nil {
				return
			}
			if len(first) > 1 && len(first) <= dns.MaxMsgSize {
				remote.Write(append([]byte{byte(len(first) >> 8), byte(len(first))}, append(query[2:4:4], first[2:]...)...))
			}
			remote.Write(rest)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if m, err := c.exchange(ctx, q, q.wire); err == nil && !q.matches(m) {
			t.Errorf("%v is not a reply", m)
		}
		<-ended
	})
}

// From any packet, only a matching reply is returned, whole or with the error for a
// truncated one.
func FuzzDatagram(f *testing.F) {
	q := must.Get(newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil))(f)
	reply := append([]byte(nil), q.wire...)
	reply[2] |= 0x80
	f.Add(reply)
	f.Add(reply[:len(reply)-11])              // without the OPT record that the header counts
	f.Add(append(reply[:2:2], 0x82, 0, 0, 1)) // truncated, in the question
	f.Add(append(reply[:12:12], 0xC0))        // a pointer
	f.Add(q.withoutEDNS())
	f.Add(make([]byte, udpBuffer))
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := new(Client).parseReply(q, packet)
		switch {
		case m == nil:
		case !q.matches(m), m.Truncated != (err != nil):
			t.Errorf("%v, %v for %x", m, err, packet)
		}
	})
}

// TestStreamConn_IDInUse: a query that got its reply has its ID until it ends. Otherwise the next
// query could get the ID, and lose its place when the first one ends. A second reply is ignored.
func TestStreamConn_IDInUse(t *testing.T) {
	q := must.Get(newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil))(t)
	c := newStreamConn(nil, time.Minute, semaphore.NewWeighted(maxLong))
	p := c.addPending(q)
	reply := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA))
	reply.Id = p.id
	for range 2 {
		c.deliver(reply, nil, 0)
		if _, ok := c.pending[p.id]; !ok {
			t.Fatal("another query may get the ID")
		}
	}
	if d := <-p.reply; d.msg != reply {
		t.Errorf("got %v", d)
	}
	c.removePending(p)
	if len(c.pending) != 0 {
		t.Error("the ID is still in use")
	}
}

// TestStreamConn_LongReplies: of replies that thousands of queries may get at a time, only maxLong octets are read before
// their queries take them. The end of the connection ends the wait.
func TestStreamConn_LongReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must.Get(newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeTXT), nil))(t)
		local, remote := net.Pipe()
		c := newStreamConn(func(context.Context) (net.Conn, error) { return local, nil }, time.Minute, semaphore.NewWeighted(maxLong))
		go c.run()
		message := make([]byte, 2+maxLong/64) // octets after the last record are ignored
		binary.BigEndian.PutUint16(message, maxLong/64)
		copy(message[2:], q.withoutEDNS())
		message[4] |= 0x80 // QR
		var sent []*sentQuery
		for range 80 {
			sent = append(sent, c.addPending(q))
		}
		go func() {
			for _, p := range sent {
				binary.BigEndian.PutUint16(message[2:], p.id)
				if _, err := remote.Write(message); err != nil {
					return // the connection was closed
				}
			}
		}()
		expect := func(want int) {
			t.Helper()
			synctest.Wait()
			n := 0
			for _, p := range sent {
				n += len(p.reply)
			}
			if n != want {
				t.Errorf("%d replies were read, want %d", n, want)
			}
		}
		expect(64)
		c.removePending(sent[0])
		expect(65)
		c.close(errConnClosed)
		for _, p := range sent[1:] {
			c.removePending(p)
		}
		expect(65)
		if !c.room.TryAcquire(maxLong) {
			t.Error("not all octets were released")
		}
	})
}

// TestStreamConn_LateQuery: a query whose time has ended is not sent, and the connection goes on.
func TestStreamConn_LateQuery(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := newStreamConn(func(context.Context) (net.Conn, error) { return client, nil }, time.Hour, semaphore.NewWeighted(maxLong))
	c.acquire()
	var running sync.WaitGroup
	running.Go(c.run)
	<-c.ready
	q := must.Get(newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil))(t)
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := c.write(late, 1, q.wire); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the late query got %v", err)
	}
	running.Go(func() {
		conn := &dns.Conn{Conn: server}
		if query, err := conn.ReadMsg(); err != nil {
			t.Errorf("the server got %v", err)
		} else if err := conn.WriteMsg(new(dns.Msg).SetReply(query)); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.exchange(t.Context(), q, q.wire); err != nil {
		t.Errorf("the next query got %v", err)
		server.Close()
	}
	c.drain()
	running.Wait()
}
