// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestReceiveDrops: packets that do not fit into the receive buffer are counted, and the count stays
// when the socket is closed.
func TestReceiveDrops(t *testing.T) {
	const metric = "dnsconfigurer_dns_udp_receive_drops_total"
	s := newTestServer(t, smallCluster, Config{})
	sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}))(t)
	defer sockets.Close()
	s.receiveDrops.setSockets(sockets.udp)
	if n := s.counterSum(t, metric); n != 0 {
		t.Errorf("%d packets without a query", n)
	}
	if err := sockets.udp[0].SetReadBuffer(1); err != nil { // the kernel raises it to its minimum
		t.Fatal(err)
	}
	c := must.Get(net.Dial("udp", sockets.Addrs()[0].String()))(t)
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

// TestServeUDP_Wildcard: the source of a reply is the destination of the query, also where the
// routing table prefers another address. The client's socket is not connected, so that it
// receives replies from any address.
func TestServeUDP_Wildcard(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip link set lo up")
	netns.AddIPv6(t, "2001:db8::1", "2001:db8::2", "fe80::53")
	v4 := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	v6 := []string{"::1", "2001:db8::1", "2001:db8::2", "fe80::53%lo"}
	for listen, addrs := range map[string][]string{
		"0.0.0.0:0":       v4,
		"[::]:0":          append(v4, v6...),
		"127.0.0.2:0":     {"127.0.0.2"},
		"[2001:db8::2]:0": {"2001:db8::2"},
		"[fe80::53%lo]:0": {"fe80::53%lo"},
	} {
		s := newTestServer(t, smallCluster, Config{})
		s.serveOn(t, listen)
		for _, a := range addrs {
			at := netip.AddrPortFrom(netip.MustParseAddr(a), s.addr.Port())
			for _, edns := range []bool{false, true} {
				checkReplySource(t, listen, at, parseQuery("web.default.svc.cluster.local. A", edns))
				c := dns.Client{Net: "tcp", Timeout: time.Minute}
				if reply, _, err := c.Exchange(parseQuery("cluster.local. SOA", edns), at.String()); err != nil || len(reply.Answer) != 1 {
					t.Errorf("listening on %s, query to %v over TCP: got %v, %v", listen, at, reply, err)
				}
			}
		}
	}
}

// checkReplySource sends a query to an address and checks that the reply is from there.
func checkReplySource(t *testing.T, listen string, at netip.AddrPort, q *dns.Msg) {
	t.Helper()
	client := "[2001:db8::1]:0"
	if at.Addr().Is4() {
		client = "127.0.0.1:0"
	}
	c := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(client))))(t)
	defer c.Close()
	if _, err := c.WriteToUDPAddrPort(mustPack(t, q), at); err != nil {
		t.Fatalf("%v: %v", at, err)
	}
	c.SetReadDeadline(time.Now().Add(time.Minute))
	var buf [maxUDP]byte
	n, from, err := c.ReadFromUDPAddrPort(buf[:])
	m := new(dns.Msg)
	if err != nil || from != at || m.Unpack(buf[:n]) != nil || m.Id != q.Id || len(m.Answer) != 1 {
		t.Errorf("listening on %s, query to %v: got a reply from %v, %v: %v", listen, at, from, err, m)
	}
}
