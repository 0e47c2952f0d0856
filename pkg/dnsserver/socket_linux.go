// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveBufferUDP is the size of a socket's receive buffer, in octets. The kernel cuts it to
// net.core.rmem_max.
const receiveBufferUDP = 4 << 20

// sendBufferUDP is the size of a UDP socket's send buffer, in octets, which the kernel doubles.
// Without CAP_NET_ADMIN the kernel cuts it to net.core.wmem_max. A reply stays in the buffer while
// the kernel looks for the link-layer address of its client, 3 s by default, up to 208 KiB for each
// neighbor (unres_qlen_bytes in arp(7)). With the kernel's default size, also 208 KiB, 256 queries
// from one address that does not answer ARP stop the replies to all clients for 3 s. This size has
// room for 39 such addresses.
const sendBufferUDP = 4 << 20

// bufferTCP is the size of each of the two buffers of a TCP connection, in octets. The kernel uses half
// of a buffer for its own data. This memory counts for the limit of the pod, not for Limits.MaxMemory, and
// the kernel's defaults are megabytes. 25 queries fit.
const bufferTCP = 8 << 10

// limitBuffers sets the sizes of the buffers of the connections that l will accept, best effort. An
// accepted connection is too late: its client has been told how much it may send. The kernel doubles the
// argument (socket(7)).
func limitBuffers(l *net.TCPListener) {
	raw, err := l.SyscallConn()
	if err != nil {
		return
	}
	_ = withDescriptor(raw, func(fd int) error {
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferTCP/2),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bufferTCP/2))
	})
}

// listenUDP opens a socket. A socket with a wildcard address also receives the destination
// address of each packet.
func listenUDP(ctx context.Context, addr netip.AddrPort, configure controlFunc) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		if configure != nil {
			if err := configure(network, address, c); err != nil {
				return err
			}
		}
		return withDescriptor(c, func(fd int) error { return setOptions(fd, network, addr.Addr().IsUnspecified()) })
	}}
	c, err := config.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// setOptions sets the options of a UDP socket. For a wildcard address it requests control
// messages with the destination address of each packet.
func setOptions(fd int, network string, wildcard bool) error {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBufferUDP) // best effort
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBufferUDP); err != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBufferUDP) // best effort
	}
	// A forged ICMP "fragmentation needed" must not make the kernel fragment replies: attackers
	// can replace single fragments (RFC 9715 section 3.1). A dual-stack socket needs the option
	// of both families. A socket for IPv6 alone may reject the option of IPv4. Therefore the error
	// of that option is returned for IPv4 sockets only.
	errV4 := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	if network == "udp4" {
		if errV4 != nil || !wildcard {
			return errV4
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	errV6 := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	if errV6 != nil || !wildcard {
		return errV6
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// share sets SO_REUSEPORT, which allows several sockets to have the same address. It is a
// [controlFunc].
func share(_, _ string, c syscall.RawConn) error {
	return withDescriptor(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// takeOver makes the kernel deliver all packets and connections for an address to the newer
// one of two sockets.
//
// The kernel numbers the sockets that share an address in the order of their opening, from 0.
// A BPF program returns the number of the socket for each packet or connection. This program
// returns 1, the second socket. If there is only one socket, 1 is out of range, and the kernel
// falls back to that socket. The program is attached to the group of sockets: it applies to
// a later socket as soon as that is open, and is released with the last socket.
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

// socketDrops returns the number of packets that the kernel has dropped for a socket (SO_MEMINFO in
// linux/sock_diag.h).
func socketDrops(conn *net.UDPConn) (n uint32, err error) {
	const drops, fields = 8, 9 // SK_MEMINFO_DROPS, SK_MEMINFO_VARS
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = withDescriptor(raw, func(fd int) error {
		var info [fields]uint32
		length := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
		if errno != 0 {
			return errno
		}
		n = info[drops]
		return nil
	})
	return n, err
}

// withDescriptor calls f with the file descriptor of c and returns its error.
func withDescriptor(c syscall.RawConn, f func(fd int) error) error {
	var result error
	if err := c.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}
