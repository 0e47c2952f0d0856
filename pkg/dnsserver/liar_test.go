// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

const (
	truth = "192.0.2.1"
	lie   = "203.0.113.66"
)

// liar is an upstream server on loopback that answers as the test says, message by
// message.
type liar struct {
	addr      netip.AddrPort
	elsewhere net.PacketConn // a socket at another port
	udp, tcp  atomic.Int32   // queries
	answer    func(network string, q *dns.Msg) []message
}

// message is one that the liar sends, after a while, perhaps from the wrong port.
type message struct {
	wire      []byte
	after     time.Duration
	elsewhere bool
}

func newLiar(t *testing.T, answer func(network string, q *dns.Msg) []message) *liar {
	t.Helper()
	l := &liar{answer: answer}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = listener.Addr().(*net.TCPAddr).AddrPort()
	conn, err := net.ListenPacket("udp", l.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	if l.elsewhere, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { l.datagrams(t, conn, &running) })
	running.Go(func() { l.connections(t, listener, &running) })
	t.Cleanup(func() {
		conn.Close()
		listener.Close()
		running.Wait()
		l.elsewhere.Close()
	})
	return l
}

func (l *liar) datagrams(t *testing.T, conn net.PacketConn, running *sync.WaitGroup) {
	var buf [dns.MaxMsgSize]byte
	for {
		n, from, err := conn.ReadFrom(buf[:])
		if err != nil {
			return
		}
		l.udp.Add(1)
		messages := l.answer("udp", unpacked(t, buf[:n]))
		running.Go(func() {
			for _, m := range messages {
				time.Sleep(m.after)
				if m.elsewhere {
					l.elsewhere.WriteTo(m.wire, from)
				} else {
					conn.WriteTo(m.wire, from)
				}
			}
		})
	}
}

func (l *liar) connections(t *testing.T, listener net.Listener, running *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer conn.Close()
			var length [2]byte
			for {
				if _, err := io.ReadFull(conn, length[:]); err != nil {
					return
				}
				wire := make([]byte, binary.BigEndian.Uint16(length[:]))
				if _, err := io.ReadFull(conn, wire); err != nil {
					return
				}
				l.tcp.Add(1)
				for _, m := range l.answer("tcp", unpacked(t, wire)) {
					time.Sleep(m.after)
					conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m.wire))), m.wire...))
				}
			}
		})
	}
}

func unpacked(t *testing.T, wire []byte) *dns.Msg {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Errorf("what the server sends to upstream is no query: %v", err)
	}
	return m
}

// says is a reply to q with addresses.
func says(t *testing.T, q *dns.Msg, addresses ...string) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for _, a := range addresses {
		rr, err := dns.NewRR(q.Question[0].Name + " 60 IN A " + a)
		if err != nil {
			t.Error(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

func wire(t *testing.T, m *dns.Msg) []byte {
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// oneTry is the upstream.Config.TryTimeout of tests that wait for its end, and patience
// that of those that do not.
const (
	oneTry   = 400 * time.Millisecond
	patience = 10 * time.Second
)

// believing serves a small cluster, and forwards to servers. One try is that long, and
// all take half a try more than two.
func believing(t *testing.T, try time.Duration, servers ...netip.AddrPort) *testServer {
	t.Helper()
	config := upstream.Config{TryTimeout: try, Timeout: try * 5 / 2}
	for _, addr := range servers {
		config.Servers = append(config.Servers, upstream.Server{Addr: addr})
	}
	client, err := upstream.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, "namespace default\nservice default/web 10.96.0.7 http:tcp:80\nloaded", client.Exchange)
}
