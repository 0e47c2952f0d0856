// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimitBuffers: the kernel's buffers of a connection have the documented sizes.
func TestLimitBuffers(t *testing.T) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	limitBuffers(l)
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		err := withDescriptor(raw, func(fd int) error {
			got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
			if got != bufferTCP {
				t.Errorf("option %d: got %d octets, want %d", option, got, bufferTCP)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
