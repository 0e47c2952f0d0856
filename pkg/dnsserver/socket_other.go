// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
)

var errNotShared = errors.New("sharing an address with another server: not supported on this system: use Linux")

func listenUDP(ctx context.Context, addr netip.AddrPort, configure controlFunc) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: configure}
	c, err := config.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func limitBuffers(*net.TCPListener) {}

func share(string, string, syscall.RawConn) error { return errNotShared }

func takeOver(syscall.Conn) error { return errNotShared }

func socketDrops(*net.UDPConn) (uint32, error) { return 0, nil }
