// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// share lets a socket have an address that another one has. It is a control.
func share(_, _ string, c syscall.RawConn) error {
	return withDescriptor(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// takeOver sends what comes to an address to the one of two sockets that was opened last.
//
// The kernel numbers the sockets that share an address, and asks a program which of them
// gets a packet or a connection: the second. When there is but one, it finds that nobody
// has that number, and gives it to the one. The program is that of the address: what a
// first socket brings is in force for the next one from its beginning, and goes with the
// last.
func takeOver(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	err = withDescriptor(raw, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &second})
	})
	if err != nil {
		return fmt.Errorf("taking over from another instance: %w", err)
	}
	return nil
}

// withDescriptor returns the error of f, which is given the file descriptor of c.
func withDescriptor(c syscall.RawConn, f func(fd int) error) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}
