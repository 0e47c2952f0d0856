// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/message"
)

const (
	// udpBuffer has room for replies of servers that exceed udpSize. A reply that
	// fills it may have been cut by the kernel and counts as truncated.
	udpBuffer = 4096
	// maxMismatches is the number of packets that do not match a query over UDP before it is
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

// exchangeUDP sends a query from a new socket, so that the kernel picks a random port and
// drops packets from other addresses. With errUseTCP it may return a truncated reply.
func (c *Client) exchangeUDP(ctx context.Context, to Server, q *query, wire []byte) (*dns.Msg, error) {
	conn, err := dialUDP(ctx, to.Addr.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	id, out := randomID(), slices.Clone(wire)
	binary.BigEndian.PutUint16(out, id)
	if _, err := conn.Write(out); err != nil {
		return nil, err
	}
	buf, ok := c.udpBuffers.Get().(*[udpBuffer]byte)
	if !ok {
		buf = new([udpBuffer]byte)
	}
	defer c.udpBuffers.Put(buf)
	for range maxMismatches {
		n, err := conn.Read(buf[:])
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no reply over UDP: %w", ctx.Err())
		case err != nil:
			return nil, err
		}
		if m, err := q.parseReply(bytes.Clone(buf[:n]), id); m != nil || err != nil {
			return m, err
		}
	}
	return nil, errUseTCP
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
