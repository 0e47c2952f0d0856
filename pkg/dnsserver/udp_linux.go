// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlLen has room for the address at which a packet arrived.
const controlLen = 64

// receiveBuffer is what the kernel may hold for a socket while we are busy, in
// octets. More than net.core.rmem_max is cut to that.
const receiveBuffer = 4 << 20

// listenUDP opens a socket. On a wildcard address it learns where packets arrive.
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
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // a wish
	if !wildcard {
		return nil
	}
	if network == "udp4" {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

// replyControl turns the address at which a packet arrived into the one from which
// the reply leaves, in place. The interface is left to the routing table, save for
// link-local addresses, which mean nothing without it.
func replyControl(control []byte) []byte {
	if len(control) < unix.SizeofCmsghdr {
		return nil
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	data := control[unix.CmsgLen(0):]
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0])).Ifindex = 0
		return control[:unix.CmsgSpace(unix.SizeofInet4Pktinfo)]
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
		if !netip.AddrFrom16(info.Addr).IsLinkLocalUnicast() {
			info.Ifindex = 0
		}
		return control[:unix.CmsgSpace(unix.SizeofInet6Pktinfo)]
	}
	return nil
}
