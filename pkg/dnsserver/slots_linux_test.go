// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package dnsserver

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestSlots_Stack: a query that waits for other servers, also one that a node cache expands, has a goroutine with a stack
// of 8 KiB. With one more large frame between the goroutine and the socket it takes 16 KiB, as with the race detector.
func TestSlots_Stack(t *testing.T) {
	if !netns.Enter(t) { // a process without stacks of earlier tests
		return
	}
	netns.Run(t, "ip link set lo up")
	silent := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer silent.Close()
	client := upstream.New(upstream.Config{Servers: []upstream.Server{{Addr: silent.LocalAddr().(*net.UDPAddr).AddrPort()}}})
	go client.Run(t.Context())
	servers := map[string]*testServer{
		"www%d.example.": newTestServer(t, "loaded", Config{Upstream: client.Exchange}),
		"www%d.search.default.cluster.local.ap.k8s.io.": newNode(t, client.Exchange, client.Exchange),
	}
	const queries = 2000
	var waiting pending
	for question, s := range servers {
		for i := range queries {
			waiting = append(waiting, sendQuery(t, s.Server, podAddr, newQuery(fmt.Sprintf(question, i), dns.TypeA)))
		}
		poll.Until(t, "all queries to wait", func() bool { return s.queries.inUse() == queries })
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if each, n := int(m.StackInuse)/len(waiting), runtime.NumGoroutine(); n > len(waiting)*11/10 || each > 10<<10 {
		t.Errorf("%d goroutines for %d queries, and a stack of %d octets each: want one, and 10 KiB at most", n, len(waiting), each)
	}
	waiting.rcodes()
}
