// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSetBuffers: the kernel's buffers of a connection have the documented sizes.
func TestSetBuffers(t *testing.T) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	setBuffers(c)
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{unix.SO_SNDBUF: sendBufferTCP, unix.SO_RCVBUF: receiveBufferTCP} {
		err := withDescriptor(raw, func(fd int) error {
			got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
			if got != want {
				t.Errorf("option %d: got %d octets, want %d", option, got, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
