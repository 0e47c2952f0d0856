// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestListenShared_Takeover: packets and connections arrive at the sockets that were opened
// last, and at the first ones again after those are closed. Listen fails at an address that
// is shared.
func TestListenShared_Takeover(t *testing.T) {
	first, err := ListenShared(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addrs := first.Addrs()
	expectArrivals := func(at *Sockets, others ...*Sockets) {
		t.Helper()
		for range 20 { // each from another port
			c, err := net.Dial("udp", addrs[0].String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("packet")); err != nil {
				t.Error(err)
			}
			c.Close()
			s, err := net.Dial("tcp", addrs[0].String())
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if n := countArrivals(at, time.Minute); n != 2 {
				t.Errorf("got %d of a packet and a connection, want 2", n)
			}
		}
		for _, o := range others {
			if n := countArrivals(o, 20*time.Millisecond); n != 0 {
				t.Errorf("got %d of a packet and a connection at other sockets, want 0", n)
			}
		}
	}
	expectArrivals(first)
	second, err := ListenShared(t.Context(), addrs)
	if err != nil {
		t.Fatal(err)
	}
	expectArrivals(second, first)
	second.Close()
	expectArrivals(first)
	if s, err := Listen(t.Context(), addrs); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen at a shared address: got %v, %v, want EADDRINUSE", s, err)
	}
}

// countArrivals receives a packet and accepts a connection, and returns how many of the two
// arrived within the timeout.
func countArrivals(s *Sockets, timeout time.Duration) (n int) {
	deadline := time.Now().Add(timeout)
	s.udp[0].SetReadDeadline(deadline)
	s.tcp[0].SetDeadline(deadline)
	if _, _, err := s.udp[0].ReadFromUDP(make([]byte, 64)); err == nil {
		n++
	}
	if c, err := s.tcp[0].Accept(); err == nil {
		c.Close()
		n++
	}
	return n
}
