// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package upstream

import (
	"net"
	"syscall"
)

// packetConn is a UDP socket.
type packetConn struct{ *net.UDPConn }

func newPacketConn(conn *net.UDPConn) (*packetConn, error) { return &packetConn{conn}, nil }

// setPathMTU is a no-op: the option is Linux's.
func setPathMTU(string, string, syscall.RawConn) error { return nil }
