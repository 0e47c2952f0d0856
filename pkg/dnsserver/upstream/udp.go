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
	"time"

	"github.com/miekg/dns"
)

const (
	// udpBuffer has room for replies of servers that do not heed udpSize. What
	// fills it may have been cut by the kernel and counts as truncated.
	udpBuffer = 4096
	// maxForged is how many wrong replies a query over UDP stands. Somebody is
	// guessing; TCP is out of his reach.
	maxForged = 20
)

// errUseTCP: the answer is not to be had over UDP.
var errUseTCP = errors.New("truncated")

// overUDP asks from a socket of its own, so that the kernel picks a random port and
// drops what comes from elsewhere. With errUseTCP may come what there is of the reply.
func overUDP(ctx context.Context, to Server, q *query, wire []byte) (*dns.Msg, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", to.Addr.String())
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
	buf := make([]byte, udpBuffer)
	for range maxForged {
		n, err := conn.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("no answer over UDP: %w", ctx.Err())
		case err != nil:
			return nil, err
		}
		if m, err := q.judge(buf[:n], id); m != nil || err != nil {
			return m, err
		}
	}
	return nil, errUseTCP
}

// judge returns the reply to q that a packet is, or errUseTCP, with what there is of
// the reply, or neither for what is no reply to q.
func (q *query) judge(packet []byte, id uint16) (*dns.Msg, error) {
	switch {
	case len(packet) < 2 || binary.BigEndian.Uint16(packet) != id:
		return nil, nil
	case len(packet) == udpBuffer:
		return nil, errUseTCP
	}
	m, err := unpack(packet)
	switch {
	case !q.isAnsweredBy(m): // also what did not get as far as the question
		return nil, nil
	case m.Truncated && err != nil: // cut in the middle of a record
		return nil, errUseTCP
	case m.Truncated:
		return m, errUseTCP
	case err != nil:
		return nil, nil
	}
	return m, nil
}
