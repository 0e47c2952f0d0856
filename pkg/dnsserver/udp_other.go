// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"time"
)

func listenUDP(ctx context.Context, addr netip.AddrPort, each control) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: each}
	c, err := config.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// batch is one packet: elsewhere than on Linux a system call reads no more. Where it
// arrived is not asked for either; on a wildcard address replies leave from whatever
// address the routing table gives.
type batch struct {
	conn   *net.UDPConn
	buf    [maxQuery]byte
	out    [maxUDP]byte
	n      int
	from   netip.AddrPort
	answer []byte
}

func newBatch(conn *net.UDPConn) (*batch, error) { return &batch{conn: conn}, nil }

func (b *batch) receive() (n int, err error) {
	b.answer = nil
	b.n, b.from, err = b.conn.ReadFromUDPAddrPort(b.buf[:])
	return 1, err
}

func (b *batch) packet(int) []byte         { return b.buf[:b.n] }
func (b *batch) room(int) []byte           { return b.out[:0] }
func (b *batch) client(int) netip.AddrPort { return b.from }
func (b *batch) origin(int) []byte         { return nil }
func (b *batch) reply(_ int, reply []byte) { b.answer = reply }

func (b *batch) send() {
	if b.answer != nil {
		_, _ = b.conn.WriteToUDPAddrPort(b.answer, b.from)
	}
	b.answer = nil
}

func rest(time.Duration) {} // with one packet a batch nothing would be won
