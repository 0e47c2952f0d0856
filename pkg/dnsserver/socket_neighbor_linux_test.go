// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestListen_SilentNeighbors: replies to 20 addresses of the network that do not answer ARP wait in the
// send buffer, and leave room for the replies to others.
func TestListen_SilentNeighbors(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.NewPod(t, 0) // 10.244.0.2
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.Close()
	conn, err := sockets.udp[0].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
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

// TestServeUDP_SendBufferFull: a reply that finds the send buffer full waits for room, and is counted.
func TestServeUDP_SendBufferFull(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up")
	netns.NewPod(t, 0)
	s := newTestServer(t, smallCluster, Config{})
	s.serveOn(t, "10.244.0.1:0")
	if err := s.sockets.udp[0].SetWriteBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	conn, err := s.sockets.udp[0].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
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
