// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/message"
)

const (
	// udpBuffer has room for replies of servers that exceed udpSize. A reply that
	// fills it may have been cut by the kernel and counts as truncated.
	udpBuffer = 4096
	// maxMismatches is the number of packets to a socket that match no query before its queries are
	// repeated over TCP: an attacker who guesses IDs and ports cannot forge a reply there.
	maxMismatches = 20
)

// errUseTCP is returned if the query must be repeated over TCP.
var errUseTCP = errors.New("reply over UDP is truncated, or packets do not match the query")

// dialUDP returns a socket that is connected to an address.
func dialUDP(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Control: setPathMTU}
	return dialer.DialContext(ctx, "udp", address)
}

// exchangeUDP sends a query. With errUseTCP it may return a truncated reply.
func (c *Client) exchangeUDP(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	socket, sent, err := c.acquireUDP(ctx, s, q)
	if err != nil {
		return nil, err
	}
	defer socket.release(sent)
	out := slices.Clone(wire)
	binary.BigEndian.PutUint16(out, sent.id)
	if _, err := socket.conn.Write(out); err != nil {
		return nil, err
	}
	select {
	case d := <-sent.reply:
		return d.msg, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no reply over UDP: %w", ctx.Err())
	}
}

// acquireUDP adds a query to the socket of a server, or to a new one if that is used up. The caller must
// release the query.
func (c *Client) acquireUDP(ctx context.Context, s *server, q *query) (*udpSocket, *udpQuery, error) {
	s.udpMu.Lock()
	defer s.udpMu.Unlock()
	if s.udp != nil {
		if sent := s.udp.add(q); sent != nil {
			return s.udp, sent, nil
		}
	}
	conn, err := dialUDP(ctx, s.Addr.String())
	if err != nil {
		return nil, nil, err
	}
	s.udp = newUDPSocket(conn)
	sent := s.udp.add(q)
	c.startUDP(s.udp)
	return s.udp, sent, nil
}

// parseReply returns the reply in a packet. It returns errUseTCP for a truncated reply,
// with the reply as far as it is readable, message.ErrMalformed for a malformed one, and
// neither reply nor error for a packet that does not match q.
func (q *query) parseReply(packet []byte, id uint16) (*dns.Msg, error) {
	switch {
	case len(packet) < 2 || binary.BigEndian.Uint16(packet) != id:
		return nil, nil
	case len(packet) == udpBuffer:
		return nil, errUseTCP
	}
	m, err := message.Unpack(packet)
	switch {
	case !q.matches(m): // or cut before the end of the question
		return nil, nil
	case m.Truncated && err != nil: // cut in the middle of a record
		return nil, errUseTCP
	case m.Truncated:
		return m, errUseTCP
	case err != nil:
		return nil, err
	}
	return m, nil
}
