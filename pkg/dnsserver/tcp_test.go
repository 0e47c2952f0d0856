// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
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
