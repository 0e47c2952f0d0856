// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"net"
	"os"
)

// serveUDP answers what comes in through conn until its read deadline passes.
func (s *Server) serveUDP(ctx context.Context, conn *net.UDPConn) error {
	var buf [maxQuery]byte
	var control [controlLen]byte
	for {
		n, c, flags, client, err := conn.ReadMsgUDPAddrPort(buf[:], control[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			continue // of one packet, such as an ICMP error for an earlier reply
		case truncated(flags):
			n = min(n, headerLen) // what is left is malformed, and told so
		}
		packet := append([]byte(nil), buf[:n]...)
		origin := append([]byte(nil), replyControl(control[:c])...)
		s.start(ctx, packet, overUDP, func(reply []byte) {
			if reply != nil {
				// A client that cannot be reached will ask again.
				_, _, _ = conn.WriteMsgUDPAddrPort(reply, origin, client)
			}
		})
	}
}
