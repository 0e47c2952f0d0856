// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// listenReaders opens n sockets, in the runtime's poller or outside of it.
func listenReaders(t *testing.T, n int, isHeld bool) *Sockets {
	t.Helper()
	sockets := must.Get(ListenShared(t.Context(), slices.Repeat([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, n)))(t)
	t.Cleanup(sockets.Close)
	for _, c := range sockets.udp {
		if isHeld {
			c.leavePoller()
		}
		if (c.file != nil) != isHeld {
			t.Fatalf("the socket is in the poller: %t", isHeld)
		}
	}
	return sockets
}

// TestHoldProcessor_Processors: there is one processor more while a reader may hold one, and none
// if the user has set the number or there is one only.
func TestHoldProcessor_Processors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, tt := range []struct {
		variable   string
		processors int
		want       int
	}{{"", 3, 4}, {"", 1, 1}, {"3", 3, 3}} {
		t.Setenv("GOMAXPROCS", tt.variable)
		runtime.GOMAXPROCS(tt.processors)
		sockets := must.Get(Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}))(t)
		restore := sockets.HoldProcessor()
		if got := runtime.GOMAXPROCS(0); got != tt.want || (sockets.udp[0].file != nil) != (tt.want > tt.processors) {
			t.Errorf("%+v: %d processors, file %v", tt, got, sockets.udp[0].file)
		}
		if restore(); runtime.GOMAXPROCS(0) != tt.processors {
			t.Errorf("%+v: %d processors after restore", tt, runtime.GOMAXPROCS(0))
		}
		sockets.Close()
	}
}

// TestRun_Stop: a server stops while its readers wait, in the runtime's poller and outside of it, within and after
// holdTime, and first answers the queries that have arrived, more than a batch at each of its sockets.
func TestRun_Stop(t *testing.T) {
	for _, tt := range []struct {
		isHeld bool
		idle   time.Duration
	}{{true, 0}, {true, 3 * holdTime}, {false, 0}} {
		s, sockets := newTestServer(t, smallCluster, Config{}), listenReaders(t, 3, tt.isHeld)
		var clients []net.Conn
		for _, addr := range sockets.Addrs() {
			c := must.Get(net.Dial("udp", addr.String()))(t)
			defer c.Close()
			c.SetReadDeadline(time.Now().Add(time.Minute))
			clients = append(clients, c)
		}
		exchangeAll := func(queries int, between func()) {
			t.Helper()
			for _, c := range clients {
				for range queries {
					must.Get(c.Write(mustPack(t, parseQuery("web.default.svc.cluster.local. A", false))))(t)
				}
			}
			between()
			for _, c := range clients {
				for range queries {
					if _, err := c.Read(make([]byte, maxUDP)); err != nil {
						t.Fatalf("%+v: %v", tt, err)
					}
				}
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, sockets) }()
		exchangeAll(1, func() {})
		time.Sleep(tt.idle)
		exchangeAll(200, stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestHoldProcessor_Closed: the error of a socket that others have closed ends the server.
func TestHoldProcessor_Closed(t *testing.T) {
	s, sockets := newServer(t, smallCluster, Config{}), listenReaders(t, 1, true)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context(), sockets) }()
	time.Sleep(holdTime / 2)
	sockets.udp[0].Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want the error of the socket", err)
	}
}

// TestHoldProcessor_GarbageCollection: the world stops while a reader holds its processor, and no query is lost.
func TestHoldProcessor_GarbageCollection(t *testing.T) {
	s, sockets := newTestServer(t, smallCluster, Config{}), listenReaders(t, 1, true)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, sockets) }()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for ctx.Err() == nil {
			runtime.GC()
		}
	}()
	client := dns.Client{Timeout: time.Minute}
	for i := range 200 {
		if _, _, err := client.Exchange(parseQuery("web.default.svc.cluster.local. A", i%2 == 0), sockets.Addrs()[0].String()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-collected
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
