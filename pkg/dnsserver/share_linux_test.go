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

// TestListenShared: what is new comes to the sockets that were opened last, and to the
// first again when these are closed. Who does not share is told so.
func TestListenShared(t *testing.T) {
	first, err := ListenShared(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	addrs := first.Addrs()
	expect := func(has *Sockets, others ...*Sockets) {
		t.Helper()
		for range 20 { // from as many ports
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
			if n := arrived(has, 10*time.Second); n != 2 {
				t.Errorf("%d of a packet and a connection have come", n)
			}
		}
		for _, o := range others {
			if n := arrived(o, 20*time.Millisecond); n != 0 {
				t.Errorf("%d have come to the other sockets", n)
			}
		}
	}
	expect(first)
	second, err := ListenShared(t.Context(), addrs)
	if err != nil {
		t.Fatal(err)
	}
	expect(second, first)
	second.Close()
	expect(first)
	if s, err := Listen(t.Context(), addrs); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, %v", s, err)
	}
}

// arrived receives a packet and accepts a connection, and returns how many of the two
// there were within wait.
func arrived(s *Sockets, wait time.Duration) (n int) {
	deadline := time.Now().Add(wait)
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
