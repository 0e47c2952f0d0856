// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// tcpTimeout ends an exchange over TCP. glibc has no timeout there.
const tcpTimeout = 30 * time.Second

// serverNetwork returns a network in which server receives all queries.
func serverNetwork(server netip.AddrPort) libc.Network {
	return libc.Network{
		UDP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			return Exchange(ctx, "udp", server, query)
		},
		TCP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			ctx, cancel := context.WithTimeout(ctx, tcpTimeout)
			defer cancel()
			return Exchange(ctx, "tcp", server, query)
		},
	}
}

// Exchange sends query to server over network, udp or tcp, and waits for the reply until ctx
// ends.
func Exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return ExchangeOver(ctx, c, query)
}

// ExchangeOver sends query over a connection, and waits for the reply until ctx ends. Invalid messages
// and replies to other queries are ignored, as the C libraries do.
//
// dns.Client is not used: it returns the first message that it cannot parse as an error,
// and its reads end at its timeouts only, not when ctx is cancelled.
func ExchangeOver(ctx context.Context, c net.Conn, query *dns.Msg) (*dns.Msg, error) {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	conn := dns.Conn{Conn: c, UDPSize: dns.MaxMsgSize}
	if err := conn.WriteMsg(query); err != nil {
		return nil, err
	}
	for {
		reply, err := conn.ReadMsg()
		if reply == nil && !errors.Is(err, dns.ErrShortRead) {
			return nil, err
		}
		if err == nil && reply.Id == query.Id && len(reply.Question) == 1 && reply.Question[0].Qtype == query.Question[0].Qtype {
			return reply, nil
		}
	}
}
