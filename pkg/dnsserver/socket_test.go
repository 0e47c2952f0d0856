// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestListen_InUse: the error names the address once, and no system call.
func TestListen_InUse(t *testing.T) {
	first, err := Listen(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	at := first.Addrs()[0]
	_, err = Listen(t.Context(), []netip.AddrPort{at})
	if want := fmt.Sprintf("listening on %s: address already in use", at); err == nil || err.Error() != want ||
		!errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestListen_KernelPort: a port that the kernel chooses for TCP may be in use for UDP. Listen
// then tries another one. 1000 UDP ports are in use here, one in thirty.
func TestListen_KernelPort(t *testing.T) {
	addr := netip.MustParseAddrPort("127.0.0.1:0")
	for range 1000 {
		c := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr)))(t)
		defer c.Close()
	}
	for range 200 {
		sockets := must.Get(Listen(t.Context(), []netip.AddrPort{addr}))(t)
		sockets.Close()
	}
}

// TestReader_ReadErrors: errors of single packets cost no pause. A socket that fails again and
// again is read ten times a second, and logged once a minute.
func TestReader_ReadErrors(t *testing.T) {
	conn := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer conn.Close()
	synctest.Test(t, func(t *testing.T) {
		var log logbuffer.Buffer
		s := newServer(t, "loaded", Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r := &reader{server: s, conn: &udpSocket{UDPConn: conn}}
		begin := time.Now()
		expect := func(pauses, messages int) {
			t.Helper()
			if took := time.Since(begin); took != time.Duration(pauses)*readErrorPause {
				t.Errorf("after %d errors: paused for %v, want %d pauses", r.errors, took, pauses)
			}
			if n := strings.Count(log.String(), "cannot read UDP socket"); n != messages {
				t.Errorf("after %d errors: %d messages, want %d", r.errors, n, messages)
			}
		}
		fail := func(n int) {
			for range n {
				r.readFailed(syscall.ENOMEM)
			}
		}
		fail(maxPacketErrors)
		expect(0, 0)
		fail(1)
		expect(1, 1)
		fail(599)
		expect(600, 1)
		fail(1)
		expect(601, 2)
	})
}
