// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dnsserver

import (
	"context"
	"net"
	"net/netip"
)

// controlLen is 0: where a packet arrived is not asked for. On a wildcard address
// replies leave from whatever address the routing table gives.
const controlLen = 0

func listenUDP(_ context.Context, addr netip.AddrPort) ([]*net.UDPConn, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, err
	}
	return []*net.UDPConn{c}, nil
}

func replyControl([]byte) []byte { return nil }

func truncated(int) bool { return false }
