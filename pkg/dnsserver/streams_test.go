// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// small is a cluster with one name.
const small = "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded"

func framed(packet []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
}

// TestStreamTimes: a connection ends after 10 seconds without a query, and 5 seconds
// after the first octet of one that is not complete, however it trickles.
func TestStreamTimes(t *testing.T) {
	query := framed(wire(t, asking("web.default.svc.cluster.local. A", true)))
	for _, tt := range []struct {
		what string
		send func(c net.Conn) // ends with an error when the server has closed
		want time.Duration
	}{
		{"silent", func(net.Conn) {}, streamIdle},
		{"one octet, then silent", func(c net.Conn) { c.Write(query[:1]) }, streamMessage},
		{"the length, then silent", func(c net.Conn) { c.Write(query[:2]) }, streamMessage},
		{"all but one octet, then silent", func(c net.Conn) { c.Write(query[:len(query)-1]) }, streamMessage},
		{"an octet each second", func(c net.Conn) {
			for _, b := range query {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, streamMessage},
		{"a query after nine seconds, then silent", func(c net.Conn) {
			time.Sleep(9 * time.Second)
			c.Write(query)
			io.ReadFull(c, make([]byte, 2))
		}, 9*time.Second + streamMessage}, // it does not read what is left of the reply
		{"a length of more than any query", func(c net.Conn) { c.Write([]byte{0x10, 0x01}) }, 0},
		{"an empty message, then silent", func(c net.Conn) { c.Write([]byte{0, 0}) }, streamIdle},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(t, noChange, small, nil)
				ours, theirs := net.Pipe()
				all := newStreams()
				all.add(ours)
				begin := time.Now()
				var sending sync.WaitGroup
				sending.Go(func() { tt.send(theirs) })
				s.serveStream(t.Context(), ours, all)
				if took := time.Since(begin); took != tt.want {
					t.Errorf("the connection has ended after %v, want %v", took, tt.want)
				}
				ours.Close()
				sending.Wait()
			})
		})
	}
}

// TestSlowQuery: one that takes just less than it may is answered.
func TestSlowQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, noChange, small, nil)
		ours, theirs := net.Pipe()
		go s.serveStream(t.Context(), ours, newStreams())
		query := framed(wire(t, asking("web.default.svc.cluster.local. A", false)))
		for range 3 {
			time.Sleep(streamIdle - time.Millisecond)
			theirs.Write(query[:1])
			time.Sleep(streamMessage - time.Millisecond)
			theirs.Write(query[1:])
			theirs.SetReadDeadline(time.Time{})
			reply, err := readMessage(theirs)
			if m := new(dns.Msg); err != nil || m.Unpack(reply) != nil || addresses(m) != "10.96.0.7" {
				t.Fatalf("%v, %x", err, reply)
			}
		}
		theirs.Close()
		synctest.Wait()
	})
}

// held are connections that the test keeps.
type held []net.Conn

func (h held) close() {
	for _, c := range h {
		c.Close()
	}
}

// openStreams connects n times and sends on each what trickle says.
func (s *testServer) openStreams(t *testing.T, n int, trickle []byte) held {
	t.Helper()
	var list held
	for range n {
		c, err := net.Dial("tcp", s.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
		c.Write(trickle)
	}
	return list
}

// resources are the goroutines and descriptors of this process.
func resources(t *testing.T) (goroutines, descriptors int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(entries)
}

// TestSlowLoris has connections that send a query octet by octet, as many as there may
// be and half as many again. UDP is served meanwhile, and so is each TCP client that
// comes later: the connection that has brought nothing for the longest time makes room.
// Nothing of them is left in the end.
func TestSlowLoris(t *testing.T) {
	s := serve(t, small, nil)
	for _, network := range []string{"udp", "tcp"} { // so that all readers run
		s.exchange(t, network, asking("cluster.local. SOA", false))
	}
	goroutines, descriptors := resources(t)

	query := framed(wire(t, asking("web.default.svc.cluster.local. A", false)))
	lorises := s.openStreams(t, maxStreams*3/2, query[:1])
	defer lorises.close()
	for i, octet := range query[1 : len(query)-1] {
		for _, c := range lorises {
			c.Write([]byte{octet})
		}
		for _, network := range []string{"udp", "tcp"} {
			if got := addresses(s.exchange(t, network, asking("web.default.svc.cluster.local. A", false))); got != "10.96.0.7" {
				t.Errorf("over %s, while %d octets are there: %s", network, 2+i, got)
			}
		}
		if now, _ := resources(t); now > goroutines+maxStreams+100 {
			t.Fatalf("%d goroutines, %d before, for %d connections", now, goroutines, maxStreams)
		}
	}
	lorises.close()
	for deadline := time.Now().Add(time.Minute); ; {
		g, d := resources(t)
		if g <= goroutines && d <= descriptors {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines %d -> %d, descriptors %d -> %d", goroutines, g, descriptors, d)
		}
		runtime.Gosched()
	}
}

// TestStreamsInUse: of 1024 connections the one that has asked most recently is kept
// when 1023 new ones come, and all others go.
func TestStreamsInUse(t *testing.T) {
	s := serve(t, small, nil)
	query := framed(wire(t, asking("web.default.svc.cluster.local. A", false)))
	first := s.openStreams(t, maxStreams, nil)
	defer first.close()
	asks := func(c net.Conn) error {
		if _, err := c.Write(query); err != nil {
			return err
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err := readMessage(c)
		return err
	}
	for i, c := range first {
		if i != 7 {
			if err := asks(c); err != nil {
				t.Fatalf("connection %d of %d: %v", i+1, maxStreams, err)
			}
		}
	}
	if err := asks(first[7]); err != nil {
		t.Fatal(err)
	}
	more := s.openStreams(t, maxStreams-1, nil)
	defer more.close()
	if err := asks(more[maxStreams-2]); err != nil {
		t.Error(err)
	}
	if err := asks(first[7]); err != nil {
		t.Errorf("the connection in use: %v", err)
	}
	for _, i := range []int{0, 6, 8, maxStreams - 1} {
		if err := asks(first[i]); err == nil {
			t.Errorf("connection %d is still there", i+1)
		}
	}
}

// TestUnreadReplies has 128 clients that send queries for upstream servers over TCP as fast as
// they can, and never read: enough to take all of limits.inFlight. They take 2048: UDP is
// answered at once, the cluster's names are answered over TCP at once, and the names of
// others when the first clients have been given up, 5 seconds after they stopped reading.
func TestUnreadReplies(t *testing.T) {
	s := serve(t, small, parseRecords(t, "www.example. 60 IN A 192.0.2.1").exchange)
	all := newStreams()
	var running sync.WaitGroup
	defer running.Wait()
	connect := func() net.Conn { // without the kernel's buffers, which hold megabytes of replies
		ours, theirs := net.Pipe()
		running.Go(func() {
			defer ours.Close()
			s.serveStream(t.Context(), ours, all)
		})
		return theirs
	}
	forwarded := asking("www.example. A", false)
	forwarded.RecursionDesired = false // such replies are not cached
	query := framed(wire(t, forwarded))
	for range maxInFlight / streamQueries {
		c := connect()
		defer c.Close()
		running.Go(func() {
			for _, err := c.Write(query); err == nil; _, err = c.Write(query) {
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); len(s.limits.streamed) < maxStreamed; {
		if time.Now().After(deadline) {
			t.Fatalf("%d queries wait, want %d", len(s.limits.streamed), maxStreamed)
		}
		runtime.Gosched()
	}
	if left := maxInFlight - len(s.limits.inFlight) - maxForwarded; left <= 0 {
		t.Errorf("clients that do not read, and servers that do not answer, leave %d of the limit", left)
	}
	for range 100 {
		if got := addresses(s.exchange(t, "udp", asking("web.default.svc.cluster.local. A", false))); got != "10.96.0.7" {
			t.Errorf("over UDP: %s", got)
		}
	}
	for _, q := range [][]byte{framed(wire(t, asking("web.default.svc.cluster.local. A", false))), query} {
		late := connect()
		defer late.Close()
		late.Write(q)
		late.SetReadDeadline(time.Now().Add(time.Minute))
		reply := make([]byte, 2+headerLen)
		if _, err := io.ReadFull(late, reply); err != nil || reply[2+7] != 1 {
			t.Errorf("over TCP: %v, %x", err, reply)
		}
	}
}
