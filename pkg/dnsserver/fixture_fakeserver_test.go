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
	validAddr  = "192.0.2.1"
	forgedAddr = "203.0.113.66"
)

// liar is an upstream server on loopback that answers as the test says, message by
// message.
type fakeServer struct {
	addr      netip.AddrPort
	otherPort net.PacketConn // a socket at another port
	udp, tcp  atomic.Int32   // queries
	handler   func(network string, q *dns.Msg) []fakeMessage
}

// message is one that the liar sends, after a while, perhaps from the wrong port.
type fakeMessage struct {
	wire      []byte
	after     time.Duration
	otherPort bool
}

func startFakeServer(t *testing.T, answer func(network string, q *dns.Msg) []fakeMessage) *fakeServer {
	t.Helper()
	l := &fakeServer{handler: answer}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.addr = listener.Addr().(*net.TCPAddr).AddrPort()
	conn, err := net.ListenPacket("udp", l.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	if l.otherPort, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { l.serveUDP(t, conn, &running) })
	running.Go(func() { l.serveTCP(t, listener, &running) })
	t.Cleanup(func() {
		conn.Close()
		listener.Close()
		running.Wait()
		l.otherPort.Close()
	})
	return l
}

func (l *fakeServer) serveUDP(t *testing.T, conn net.PacketConn, running *sync.WaitGroup) {
	var buf [dns.MaxMsgSize]byte
	for {
		n, from, err := conn.ReadFrom(buf[:])
		if err != nil {
			return
		}
		l.udp.Add(1)
		messages := l.handler("udp", unpackQuery(t, buf[:n]))
		running.Go(func() {
			for _, m := range messages {
				time.Sleep(m.after)
				if m.otherPort {
					l.otherPort.WriteTo(m.wire, from)
				} else {
					conn.WriteTo(m.wire, from)
				}
			}
		})
	}
}

func (l *fakeServer) serveTCP(t *testing.T, listener net.Listener, running *sync.WaitGroup) {
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
				for _, m := range l.handler("tcp", unpackQuery(t, wire)) {
					time.Sleep(m.after)
					conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m.wire))), m.wire...))
				}
			}
		})
	}
}

func unpackQuery(t *testing.T, wire []byte) *dns.Msg {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Errorf("what the server sends to upstream is no query: %v", err)
	}
	return m
}

// says is a reply to q with addresses.
func newReply(t *testing.T, q *dns.Msg, addresses ...string) *dns.Msg {
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

func mustPack(t *testing.T, m *dns.Msg) []byte {
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// oneTry is the upstream.Config.TryTimeout of tests that wait for its end, and patience
// that of those that do not.
const (
	shortTry = 400 * time.Millisecond
	longTry  = 10 * time.Second
)

// believing serves a small cluster, and forwards to servers. One try is that long, and
// all take half a try more than two.
func startForwarder(t *testing.T, try time.Duration, servers ...netip.AddrPort) *testServer {
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
