// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestStreams_Eviction: a new connection never closes one with a pending query, and of the
// idle ones it closes those of the client that has the most.
func TestStreams_Eviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		all := newStreams(limit, limit)
		greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		open := func(client netip.Addr) net.Conn {
			t.Helper()
			server, remote := net.Pipe()
			t.Cleanup(func() { remote.Close() })
			if !all.add(server, client) {
				server.Close()
				return nil
			}
			time.Sleep(time.Second)
			return server
		}
		closed := func(c net.Conn) bool {
			c.SetReadDeadline(time.Unix(1, 0))
			_, err := c.Read(make([]byte, 1))
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		idle := open(modest)
		pending := open(greedy)
		all.recordQuery(pending)
		first := open(greedy)
		for range limit * 3 {
			if open(greedy) == nil {
				t.Fatal("a new connection was closed although others are idle")
			}
		}
		if closed(idle) || closed(pending) || !closed(first) {
			t.Errorf("closed: the other client's %t, one with a query %t, the longest idle one %t",
				closed(idle), closed(pending), closed(first))
		}
		if n := len(all.open); n != limit || all.clients[greedy] != limit-1 || all.clients[modest] != 1 {
			t.Errorf("%d connections, by client %v", n, all.clients)
		}
		for c := range all.open {
			if c != pending {
				all.recordQuery(c)
			}
		}
		if open(modest) != nil {
			t.Error("a connection with a pending query was closed")
		}
		all.recordWrite(pending)
		if open(modest) == nil || !closed(pending) {
			t.Error("the idle connection was not closed")
		}
	})
}

// TestStreams_MaxConnections has both sides of the configured limit. The gauge follows.
func TestStreams_MaxConnections(t *testing.T) {
	s := startServer(t, smallCluster, Config{MaxConnections: 3})
	conns := s.dialStreams(t, 3, nil)
	defer conns.close()
	asks := func(c net.Conn) error {
		if _, err := c.Write(frame(mustPack(t, parseQuery("web.default.svc.cluster.local. A", false)))); err != nil {
			return err
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := readMessage(c)
		return err
	}
	for i, c := range conns {
		if err := asks(c); err != nil {
			t.Fatalf("connection %d of 3: %v", i+1, err)
		}
	}
	more := s.dialStreams(t, 1, nil)
	defer more.close()
	if err := asks(more[0]); err != nil {
		t.Errorf("the fourth connection: %v", err)
	}
	// Which one is closed depends on when the server has recorded that a reply was written.
	closed := 0
	for _, c := range conns {
		if asks(c) != nil {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("%d of 3 connections were closed for a fourth, want 1", closed)
	}
	expectOpen := func(want float64) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("%v open connections", want), func() bool {
			return testutil.ToFloat64(s.streamLimits.connections) == want
		})
	}
	expectOpen(3)
	conns.close()
	more.close()
	expectOpen(0)
}

// TestStreams_ClientLimit: at its limit a client replaces its own longest idle connection, and
// none of another client. If none of its own is idle, its new connection is closed.
func TestStreams_ClientLimit(t *testing.T) {
	all := newStreams(10, 2)
	greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	var conns []net.Conn
	open := func(client netip.Addr) bool {
		server, remote := net.Pipe()
		t.Cleanup(func() { remote.Close() })
		conns = append(conns, server)
		return all.add(server, client)
	}
	for i, client := range []netip.Addr{modest, greedy, greedy, greedy} {
		if !open(client) {
			t.Errorf("connection %d was refused", i+1)
		}
	}
	if all.open[conns[0]] == nil || all.open[conns[1]] != nil || all.clients[greedy] != 2 {
		t.Errorf("%d connections of the greedy client, open: %v", all.clients[greedy], all.open)
	}
	all.recordQuery(conns[2])
	all.recordQuery(conns[3])
	for _, addr := range []netip.Addr{greedy, netip.AddrFrom16(greedy.As16())} { // also as IPv4-mapped address
		if open(addr) {
			t.Errorf("a third connection with two busy ones was accepted from %s", addr)
		}
	}
	if !open(modest) {
		t.Error("another client's connection was refused")
	}
}

// TestNew_NegativeMaxConnections: a limit that would refuse every connection is an error.
func TestNew_NegativeMaxConnections(t *testing.T) {
	c, err := cache.New(cache.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for text, config := range map[string]Config{"MaxConnections -1": {MaxConnections: -1},
		"MaxClientConnections -1": {MaxClientConnections: -1}} {
		config.Domain, config.Cache = mustName(t, "cluster.local"), c
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error about %s", err, text)
		}
	}
}
