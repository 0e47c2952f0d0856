// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setPathMTU makes the kernel ignore path MTUs from ICMP messages, which an attacker can forge to
// have queries fragmented (RFC 9715 section 3.1). It is the Control of a [net.Dialer].
func setPathMTU(network, _ string, c syscall.RawConn) error {
	var result error
	err := c.Control(func(fd uintptr) {
		if network == "udp4" {
			result = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
		} else {
			result = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
		}
	})
	if err != nil {
		return err
	}
	return result
}

// packetConn is a UDP socket that is read and written without telling the runtime about the system calls,
// which do not block: the runtime would wake its monitor thread each time.
type packetConn struct {
	*net.UDPConn
	raw syscall.RawConn
}

func newPacketConn(conn *net.UDPConn) (*packetConn, error) {
	raw, err := conn.SyscallConn()
	return &packetConn{conn, raw}, err
}

// Read is [net.UDPConn.Read].
func (c *packetConn) Read(b []byte) (n int, err error) {
	waitErr := c.raw.Read(func(fd uintptr) bool {
		n, err = callRaw(unix.SYS_READ, fd, b)
		return err != unix.EAGAIN
	})
	return n, cmp.Or(waitErr, err)
}

// Write is [net.UDPConn.Write].
func (c *packetConn) Write(b []byte) (n int, err error) {
	waitErr := c.raw.Write(func(fd uintptr) bool {
		n, err = callRaw(unix.SYS_WRITE, fd, b)
		return err != unix.EAGAIN
	})
	return n, cmp.Or(waitErr, err)
}

func callRaw(call, fd uintptr, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
