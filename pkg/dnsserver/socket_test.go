// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"testing"
)

// TestListen_KernelPort: a port that the kernel chooses for TCP may be in use for UDP. Listen
// then tries another one. 1000 UDP ports are in use here, one in thirty.
func TestListen_KernelPort(t *testing.T) {
	addr := netip.MustParseAddrPort("127.0.0.1:0")
	for range 1000 {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 200 {
		sockets, err := Listen(t.Context(), []netip.AddrPort{addr})
		if err != nil {
			t.Fatal(err)
		}
		sockets.Close()
	}
}
