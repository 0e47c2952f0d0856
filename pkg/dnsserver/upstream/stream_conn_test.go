// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestStreamConn_IDInUse: a query that got its reply has its ID until it ends. Otherwise the next
// query could get the ID, and lose its place when the first one ends. A second reply is ignored.
func TestStreamConn_IDInUse(t *testing.T) {
	q, err := newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newStreamConn(nil, time.Minute)
	p := pendingQuery{query: q, reply: make(chan delivered, 1)}
	id := c.addPending(p)
	reply := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA))
	reply.Id = id
	for range 2 {
		c.deliver(reply, nil)
		if _, ok := c.pending[id]; !ok {
			t.Fatal("another query may get the ID")
		}
	}
	if d := <-p.reply; d.msg != reply {
		t.Errorf("got %v", d)
	}
	c.removePending(id)
	if len(c.pending) != 0 {
		t.Error("the ID is still in use")
	}
}

// TestStreamConn_LateQuery: a query whose time has ended is not sent, and the connection goes on.
func TestStreamConn_LateQuery(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := newStreamConn(func(context.Context) (net.Conn, error) { return client, nil }, time.Hour)
	c.acquire()
	var running sync.WaitGroup
	running.Go(c.run)
	<-c.ready
	q, err := newQuery(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), nil)
	if err != nil {
		t.Fatal(err)
	}
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
	c.release()
	c.drain()
	running.Wait()
}
