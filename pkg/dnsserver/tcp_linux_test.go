// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestServeTCP_NoDescriptors: without free file descriptors the connections wait. The failures
// are counted, and logged once a minute. With descriptors the connections are served, and no
// failure is counted.
func TestServeTCP_NoDescriptors(t *testing.T) {
	var log logbuffer.Buffer
	s := startServer(t, smallCluster, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	query := parseQuery("web.default.svc.cluster.local. A", false)
	failures := func() int { return int(s.counterSum(t, "dnsconfigurer_dns_tcp_accept_errors_total")) }
	if got := addresses(s.exchange(t, "tcp", query)); got != "10.96.0.7" || failures() != 0 {
		t.Fatalf("with descriptors: got %s, %d failures", got, failures())
	}

	client := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	conn := os.NewFile(uintptr(client), "client")
	defer conn.Close()
	restore := exhaustDescriptors(t)
	defer restore()
	must.Succeed(t, unix.SetsockoptTimeval(client, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}))
	must.Succeed(t, unix.Connect(client, &unix.SockaddrInet4{Port: int(s.addr.Port()), Addr: s.addr.Addr().As4()}))
	must.Get(conn.Write(frame(mustPack(t, query))))(t)
	poll.Until(t, "three failures to accept", func() bool { return failures() >= 3 })
	restore()
	reply := make([]byte, 2+dns.MinMsgSize)
	if n, err := conn.Read(reply); err != nil || n < 2+headerLen || reply[2] != byte(query.Id>>8) || reply[3] != byte(query.Id) {
		t.Errorf("with descriptors again: got %d octets, %v", n, err)
	}
	if n := strings.Count(log.String(), "cannot accept TCP connection"); n == 0 || n >= failures() {
		t.Errorf("got %d messages for %d failures:\n%s", n, failures(), log.String())
	}
}

// TestForward_NoDescriptors: without free file descriptors a query cannot be sent. That says nothing
// about the name or the server: the failure is not cached, and the server is not down.
func TestForward_NoDescriptors(t *testing.T) {
	server := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message { return validReply(t, q) })
	for name, tcp := range map[string]bool{"UDP": false, "TCP": true} {
		t.Run(name, func(t *testing.T) {
			client := upstream.New(upstream.Config{Servers: []upstream.Server{{Addr: server.Addr, TCP: tcp}}})
			s := newTestServer(t, smallCluster, Config{Upstream: client.Exchange})
			ask := func() *dns.Msg { return exchangeDirect(t, s.Server, parseQuery("www.example. A", true)) }
			restore := exhaustDescriptors(t)
			defer restore()
			for range 3 {
				if m := ask(); m.Rcode != dns.RcodeServerFailure || extendedCode(m) != extendedLimit {
					t.Errorf("without descriptors: got %v, want SERVFAIL", m)
				}
			}
			restore()
			if n := s.counterSum(t, "dnsconfigurer_dns_refusals_total", "reason=resources"); n != 3 {
				t.Errorf("%d refusals were counted, want 3", n)
			}
			if client.Status()[0].Down {
				t.Error("the server is down")
			}
			if got := addresses(ask()); got != validAddr {
				t.Errorf("with descriptors: got %s, want %s", got, validAddr)
			}
		})
	}
}

// exhaustDescriptors makes every attempt to open a file descriptor fail until restore is called.
func exhaustDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}

// TestLimitBuffers: the kernel's buffers of a connection have the documented sizes.
func TestLimitBuffers(t *testing.T) {
	l := must.Get(net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	defer l.Close()
	limitBuffers(l)
	c := must.Get(net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)))(t)
	defer c.Close()
	accepted := must.Get(l.AcceptTCP())(t)
	defer accepted.Close()
	raw := must.Get(accepted.SyscallConn())(t)
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		err := withDescriptor(raw, func(fd int) error {
			got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
			if got != bufferTCP {
				t.Errorf("option %d: got %d octets, want %d", option, got, bufferTCP)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
