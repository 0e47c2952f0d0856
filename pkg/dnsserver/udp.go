// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// serveUDP answers what comes in through conn until its read deadline passes. What
// the quick way answers is sent before the next packets are read.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	b, err := newBatch(conn)
	if err != nil {
		return err
	}
	quick := newQuick(s)
	for {
		n, err := b.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			continue // of one packet, such as an ICMP error for an earlier reply
		}
		start := time.Now()
		for i := range n {
			r := quick.answer(b.packet(i), b.room(i), start)
			if r.refresh {
				packet := bytes.Clone(b.packet(i))
				s.background(ctx, func(ctx context.Context) { s.refresh(ctx, packet) })
			}
			switch {
			case r.reply != nil:
				b.reply(i, r.reply)
			case !r.dropped:
				s.startUDP(ctx, conn, b, i)
			}
		}
		b.send()
		quick.tally.flush(time.Since(start))
	}
}

// startUDP answers packet i of a batch the plain way, which may take longer than the
// batch does.
func (s *Server) startUDP(ctx context.Context, conn *net.UDPConn, b *batch, i int) {
	client, origin := b.client(i), bytes.Clone(b.origin(i))
	s.start(ctx, bytes.Clone(b.packet(i)), overUDP, func(reply []byte) {
		if reply != nil {
			// A client that cannot be reached will ask again.
			_, _, _ = conn.WriteMsgUDPAddrPort(reply, origin, client)
		}
	})
}
