// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// BenchmarkExchange measures a query over UDP. The server allocates nothing.
func BenchmarkExchange(b *testing.B) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	go func() {
		var buf [4096]byte
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf[:])
			if err != nil {
				return
			}
			buf[2] |= 0x80 // a reply without records
			_, _ = conn.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	c, err := upstream.New(upstream.Config{Servers: []upstream.Server{{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}}})
	if err != nil {
		b.Fatal(err)
	}
	q := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).SetEdns0(1232, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Exchange(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
