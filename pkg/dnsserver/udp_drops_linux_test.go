// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestReceiveDrops: packets that do not fit into the receive buffer are counted, and the count stays
// when the socket is closed.
func TestReceiveDrops(t *testing.T) {
	const metric = "dnsconfigurer_dns_udp_receive_drops_total"
	s := newTestServer(t, smallCluster, Config{})
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.Close()
	s.receiveDrops.setSockets(sockets.udp)
	if n := s.counterSum(t, metric); n != 0 {
		t.Errorf("%d packets without a query", n)
	}
	if err := sockets.udp[0].SetReadBuffer(1); err != nil { // the kernel raises it to its minimum
		t.Fatal(err)
	}
	c, err := net.Dial("udp", sockets.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	poll.Until(t, "packets are dropped", func() bool {
		if _, err := c.Write(make([]byte, 512)); err != nil {
			t.Error(err)
		}
		return s.counterSum(t, metric) > 0
	})
	want := s.counterSum(t, metric)
	sockets.Close()
	if got := s.counterSum(t, metric); got != want {
		t.Errorf("%d packets after the socket is closed, want %d", got, want)
	}
}
