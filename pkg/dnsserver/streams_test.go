// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestStreams_Replaced: without a free slot a new connection closes the one that its client has not
// used for the longest time, of the client with the most connections, also if a query waits there.
func TestStreams_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{MaxMemory: MinMemory}
		all := newStreams(limits, nil)
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
		if n := testutil.ToFloat64(all.closed[closedConnections]); n < 1 {
			t.Errorf("%v connections were counted as closed", n)
		}
		for range limits.maxConnections() / 16 { // of the reserve
			if open(modest) == nil {
				t.Fatal("a connection of a client that holds few is refused")
			}
		}
	})
}

// TestStreams_Gauge: the gauge follows the open connections.
func TestStreams_Gauge(t *testing.T) {
	s := startServer(t, smallCluster, Config{})
	expectOpen := func(want int) {
		t.Helper()
		poll.Until(t, fmt.Sprint(want, " open connections"), func() bool { return s.streams.connections.inUse() == want })
	}
	conns := s.dialStreams(t, 3, nil)
	expectOpen(3)
	conns.close()
	expectOpen(0)
}
