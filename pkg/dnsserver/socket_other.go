// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dnsserver

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// udpSocket is a UDP socket.
type udpSocket struct{ *net.UDPConn }

func (s *udpSocket) stopReading() { s.SetReadDeadline(time.Unix(1, 0)) }

// HoldProcessor is a no-op: the readers wait in the runtime's poller.
func (s *Sockets) HoldProcessor() (restore func()) { return func() {} }

func setOptions(syscall.RawConn, string, bool) error { return nil }

func limitBuffers(*net.TCPListener) {}

func share(string, string, syscall.RawConn) error {
	return errors.New("sharing an address with another server: not supported on this system: use Linux")
}

func takeOver(syscall.Conn) error { return nil }

func socketDrops(*udpSocket) (uint32, error) { return 0, nil }

// batch holds one packet and the reply to it: recvmmsg(2) is used on Linux only. The destination address of the
// packet is unknown. If the socket has a wildcard address, the routing table chooses the source address of the reply.
type batch struct {
	conn   *udpSocket
	buf    [maxQuery]byte
	out    [maxUDP]byte
	n      int
	from   netip.AddrPort
	answer []byte
}

func newBatch(conn *udpSocket, _ prometheus.Counter) (*batch, error) {
	return &batch{conn: conn}, nil
}

func (b *batch) receive(bool) (n int, err error) {
	b.answer = nil
	b.n, b.from, err = b.conn.ReadFromUDPAddrPort(b.buf[:])
	return 1, err
}

func (b *batch) packet(int) (packet, buf []byte, client netip.AddrPort) {
	return b.buf[:b.n], b.out[:0], b.from
}

func (b *batch) reply(_ int, reply []byte) { b.answer = reply }

func (b *batch) deferred(int) (send func(wire []byte)) {
	client := b.from
	return func(wire []byte) { _, _ = b.conn.WriteToUDPAddrPort(wire, client) }
}

func (b *batch) send() {
	if b.answer != nil {
		_, _ = b.conn.WriteToUDPAddrPort(b.answer, b.from)
	}
	b.answer = nil
}

func (b *batch) pause(time.Duration) {} // a batch of one packet gains nothing from a pause
