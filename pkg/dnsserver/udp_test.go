// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestLastQueries: queries that the kernel holds when the server is told to end are
// answered.
func TestLastQueries(t *testing.T) {
	const queries = 200 // more than one batch
	s := bare(t, benchCluster(1), nil)
	sockets, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("udp", sockets.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	packet, err := new(dns.Msg).SetQuestion("only-4.payments.svc.cluster.local.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range queries {
		if _, err := client.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx, sockets); err != nil {
		t.Fatal(err)
	}
	client.SetReadDeadline(time.Now().Add(5 * time.Second))
	for i := range queries {
		if _, err := client.Read(make([]byte, maxUDP)); err != nil {
			t.Fatalf("%d of %d queries were answered: %v", i, queries, err)
		}
	}
}
