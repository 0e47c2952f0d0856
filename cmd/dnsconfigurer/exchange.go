// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// tcpLimit ends an exchange over TCP. glibc has no limit there.
const tcpLimit = 30 * time.Second

// oneServer is a network in which server is behind every address.
func oneServer(server netip.AddrPort) libc.Network {
	return libc.Network{
		UDP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			return exchange(ctx, "udp", server, query)
		},
		TCP: func(ctx context.Context, _ netip.Addr, query *dns.Msg) (*dns.Msg, error) {
			ctx, cancel := context.WithTimeout(ctx, tcpLimit)
			defer cancel()
			return exchange(ctx, "tcp", server, query)
		},
	}
}

// exchange sends query to server and waits for the reply until ctx ends.
func exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	conn := dns.Conn{Conn: c, UDPSize: dns.MaxMsgSize}
	if err := conn.WriteMsg(query); err != nil {
		return nil, err
	}
	for {
		reply, err := conn.ReadMsg()
		if reply == nil {
			return nil, err
		}
		// What cannot be read or is for somebody else is as if it had not come.
		if err == nil && reply.Id == query.Id && len(reply.Question) == 1 && reply.Question[0].Qtype == query.Question[0].Qtype {
			return reply, nil
		}
	}
}
