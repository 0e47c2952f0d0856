// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnstest_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/dnstest"
)

func reply(q *dns.Msg) *dns.Msg {
	if strings.HasPrefix(q.Question[0].Name, "silent.") {
		return nil
	}
	return new(dns.Msg).SetRcode(q, dns.RcodeNameError)
}

func TestStart(t *testing.T) {
	s := dnstest.Start(t, dnstest.Reply(reply))
	for _, network := range []string{"udp", "tcp"} {
		c := dns.Client{Net: network, Timeout: time.Minute}
		r, _, err := c.Exchange(new(dns.Msg).SetQuestion("www.example.", dns.TypeA), s.Addr.String())
		if err != nil || r.Rcode != dns.RcodeNameError {
			t.Errorf("%s: %v, %v", network, r, err)
		}
	}
	c := dns.Client{Timeout: 50 * time.Millisecond}
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion("silent.example.", dns.TypeA), s.Addr.String())
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("silent: %v, %v", r, err)
	}
	if s.OverTCP.Load() != 1 || s.Conns.Load() != 1 {
		t.Errorf("%d queries over TCP on %d connections, want 1 and 1", s.OverTCP.Load(), s.Conns.Load())
	}
}

func TestClose_NotAQuery(t *testing.T) {
	s, err := dnstest.New(dnstest.Reply(reply))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", s.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("no query")); err != nil {
		t.Fatal(err)
	}
	for s.OverUDP.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), "received over udp") {
		t.Errorf("Close: %v", err)
	}
}

func TestMessage_OtherPort(t *testing.T) {
	s := dnstest.Start(t, func(_ string, q *dns.Msg) []dnstest.Message {
		wire, err := reply(q).Pack()
		if err != nil {
			t.Error(err)
		}
		return []dnstest.Message{{Wire: wire, OtherPort: true}, {Wire: wire, After: time.Millisecond}}
	})
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	query, err := new(dns.Msg).SetQuestion("www.example.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WriteTo(query, net.UDPAddrFromAddrPort(s.Addr)); err != nil {
		t.Fatal(err)
	}
	var fromServer []bool
	for range 2 {
		_, from, err := c.ReadFrom(make([]byte, 512))
		if err != nil {
			t.Fatal(err)
		}
		fromServer = append(fromServer, from.String() == s.Addr.String())
	}
	if fromServer[0] || !fromServer[1] {
		t.Errorf("from the server's port: %v, want the second", fromServer)
	}
}

// TestClosedPort: the kernel refuses a query, and gives the port to no other socket.
func TestClosedPort(t *testing.T) {
	addr := dnstest.ClosedPort(t).String()
	c := dns.Client{Timeout: time.Minute}
	if r, _, err := c.Exchange(new(dns.Msg).SetQuestion("www.example.", dns.TypeA), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, %v", r, err)
	}
	if l, err := net.ListenPacket("udp", addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, %v", l, err)
	}
}
