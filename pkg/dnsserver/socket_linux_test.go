// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestListenShared_Takeover: packets and connections arrive at the sockets that were opened
// last, and at the first ones again after those are closed. Listen fails at an address that
// is shared.
func TestListenShared_Takeover(t *testing.T) {
	first := must.Get(ListenShared(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}))(t)
	defer first.Close()
	addrs := first.Addrs()
	expectArrivals := func(at *Sockets, others ...*Sockets) {
		t.Helper()
		for range 20 { // each from another port
			c := must.Get(net.Dial("udp", addrs[0].String()))(t)
			if _, err := c.Write([]byte("packet")); err != nil {
				t.Error(err)
			}
			c.Close()
			s := must.Get(net.Dial("tcp", addrs[0].String()))(t)
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
	second := must.Get(ListenShared(t.Context(), addrs))(t)
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

// TestListen_NoIPv6: the manifest listens on the IPv6 wildcard address, which includes IPv4. On
// a kernel without IPv6 package net listens on 0.0.0.0. Other IPv6 addresses are an error.
func TestListen_NoIPv6(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.RemoveIPv6(t)
	sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("[::]:1053")}))(t)
	defer sockets.Close()
	if got := sockets.Addrs()[0].String(); got != "0.0.0.0:1053" {
		t.Errorf("listening on %s, want 0.0.0.0:1053", got)
	}
	if s, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("[::1]:1053")}); !errors.Is(err, syscall.EAFNOSUPPORT) {
		t.Errorf("[::1]: got %v, %v, want EAFNOSUPPORT", s, err)
	}
}

// TestListen_IgnoresPathMTU: no UDP socket uses path MTU discovery (RFC 9715 section 3.1), neither
// of the cluster DNS nor of a node cache.
func TestListen_IgnoresPathMTU(t *testing.T) {
	for name, listen := range map[string]func(context.Context, []netip.AddrPort) (*Sockets, error){
		"Listen": Listen, "ListenShared": ListenShared} {
		for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
			sockets, err := listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort(address)})
			if err != nil {
				t.Fatal(err)
			}
			defer sockets.Close()
			raw := must.Get(sockets.udp[0].SyscallConn())(t)
			err = withDescriptor(raw, func(fd int) error {
				got, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER)
				if netip.MustParseAddrPort(address).Addr().Is6() && err == nil {
					got, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER)
				}
				if got != unix.IP_PMTUDISC_OMIT { // the same number as IPV6_PMTUDISC_OMIT
					t.Errorf("%s(%s): path MTU discovery is %d", name, address, got)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestListen_SilentNeighbors: replies to 20 addresses of the network that do not answer ARP wait in the
// send buffer, and leave room for the replies to others.
func TestListen_SilentNeighbors(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.NewPod(t, 0) // 10.244.0.2
	sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:0")}))(t)
	defer sockets.Close()
	conn := must.Get(sockets.udp[0].SyscallConn())(t)
	send := func(host byte) error {
		to := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 244, 0, host}}
		return withDescriptor(conn, func(fd int) error { return unix.Sendto(fd, make([]byte, 100), unix.MSG_DONTWAIT, to) })
	}
	for host := range byte(20) {
		for i := range 256 {
			if err := send(100 + host); err != nil {
				t.Fatalf("reply %d to 10.244.0.%d: %v", i+1, 100+host, err)
			}
		}
	}
	if err := send(2); err != nil {
		t.Errorf("reply to another client: %v", err)
	}
}

// TestServeUDP_SendBufferFull: a reply that finds the send buffer full waits for room, and is counted, in the runtime's
// poller and outside of it.
func TestServeUDP_SendBufferFull(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up")
	netns.NewPod(t, 0)
	for _, held := range []bool{false, true} {
		sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:0")}))(t)
		must.Succeed(t, sockets.udp[0].SetWriteBuffer(16<<10))
		if held {
			sockets.udp[0].leavePoller()
		}
		s := newTestServer(t, smallCluster, Config{})
		s.serve(t, sockets)
		expectSendWait(t, s)
	}
}

// expectSendWait sends queries with a full send buffer until a reply has waited.
func expectSendWait(t *testing.T, s *testServer) {
	t.Helper()
	conn := must.Get(s.sockets.udp[0].SyscallConn())(t)
	fill := func(fd int) error { // it is empty again after 3 s
		silent := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{10, 244, 0, 99}}
		for range 256 {
			if err := unix.Sendto(fd, make([]byte, 100), unix.MSG_DONTWAIT, silent); err != nil {
				return err
			}
		}
		return nil
	}
	poll.Until(t, "a wait is counted", func() bool {
		if err := withDescriptor(conn, fill); err != unix.EAGAIN {
			t.Fatalf("the send buffer is not full: %v", err)
		}
		if got := addresses(s.exchange(t, "udp", parseQuery("web.default.svc.cluster.local. A", false))); got != "10.96.0.7" {
			t.Errorf("got %s", got)
		}
		return s.counterSum(t, "dnsconfigurer_dns_udp_send_waits_total") > 0
	})
}
