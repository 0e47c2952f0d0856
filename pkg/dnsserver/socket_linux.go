// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// receiveBuffer is the size of a socket's receive buffer, in octets. The kernel cuts it to
// net.core.rmem_max.
const receiveBuffer = 4 << 20

// listenUDP opens a socket. On a wildcard address it receives with each packet the address
// that the packet was sent to.
func listenUDP(ctx context.Context, addr netip.AddrPort, each control) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if each != nil {
			if err := each(network, address, c); err != nil {
				return err
			}
		}
		return withDescriptor(c, func(fd int) error { return prepare(fd, network, addr.Addr().IsUnspecified()) })
	}}
	c, err := config.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func prepare(fd int, network string, wildcard bool) error {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // best effort
	// A forged ICMP "fragmentation needed" must not make the kernel fragment replies, which
	// attackers can then replace in part (RFC 9715 section 3.1). A socket for both families
	// sends IPv4 by the option of IPv4.
	v4 := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	if network == "udp4" {
		if v4 != nil || !wildcard {
			return v4
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	v6 := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	if v6 != nil || !wildcard {
		return v6
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// share allows several sockets to have one address. It is a control.
func share(_, _ string, c syscall.RawConn) error {
	return withDescriptor(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// takeOver makes the kernel deliver what is sent to an address to the one of two sockets
// that was opened last.
//
// The kernel numbers the sockets that share an address in the order of their opening, and
// runs a program to choose one for each packet or connection: this one returns the second. If
// there is only one, the number does not exist, and the kernel falls back to that one. The
// program belongs to the address: it is valid for a later socket from its beginning, and ends
// with the last.
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
