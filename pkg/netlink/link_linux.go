// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Ensure makes a dummy interface of that name if there is no interface that has it, sets
// it up, and gives it the addresses. Others that it has stay. It needs CAP_NET_ADMIN.
func Ensure(name string, addrs []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("opening rtnetlink: %w", err)
	}
	defer unix.Close(fd)
	if err := request(fd, newLink(name)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("making the interface %s, of type dummy: %w", name, err)
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := request(fd, setUp(link.Index)); err != nil {
		return fmt.Errorf("setting the interface %s up: %w", name, err)
	}
	for _, addr := range addrs {
		if err := request(fd, newAddr(link.Index, addr)); err != nil {
			return fmt.Errorf("giving %s to the interface %s: %w", addr, name, err)
		}
	}
	return nil
}

// request sends a message and waits for the kernel's word.
func request(fd int, message []byte) error {
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 4096) // more than an error with the message that it is about
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	return acknowledged(buf[:n])
}

// acknowledged reads the kernel's word.
func acknowledged(reply []byte) error {
	if len(reply) < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(reply[4:]) != unix.NLMSG_ERROR {
		return errors.New("rtnetlink: the kernel's reply is not understood")
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// newLink asks for a dummy interface; one of the name must not be there.
func newLink(name string) []byte {
	kind := attribute(unix.IFLA_INFO_KIND, []byte("dummy"))
	body := link(0, 0)
	body = append(body, attribute(unix.IFLA_IFNAME, append([]byte(name), 0))...)
	body = append(body, attribute(unix.IFLA_LINKINFO, kind)...)
	return message(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

func setUp(index int) []byte { return message(unix.RTM_NEWLINK, 0, link(index, unix.IFF_UP)) }

// newAddr asks for an address, that of one host. IPv6 is not to look whether another host
// has it, for until that is known nobody can listen on it.
func newAddr(index int, addr netip.Addr) []byte {
	addr = addr.Unmap()
	family, flags := byte(unix.AF_INET), byte(0)
	if addr.Is6() {
		family, flags = unix.AF_INET6, unix.IFA_F_NODAD
	}
	body := []byte{family, byte(addr.BitLen()), flags, unix.RT_SCOPE_UNIVERSE}
	body = binary.NativeEndian.AppendUint32(body, uint32(index))
	body = append(body, attribute(unix.IFA_LOCAL, addr.AsSlice())...)
	body = append(body, attribute(unix.IFA_ADDRESS, addr.AsSlice())...)
	return message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, body)
}

// link is an ifinfomsg that sets these flags.
func link(index int, flags uint32) []byte {
	body := make([]byte, 4, unix.SizeofIfInfomsg) // of any family and type
	body = binary.NativeEndian.AppendUint32(body, uint32(index))
	body = binary.NativeEndian.AppendUint32(body, flags)
	return binary.NativeEndian.AppendUint32(body, flags) // those to be changed
}

// attribute is a value with its length and type, padded to four octets.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// message puts the header of a request before a body.
func message(kind, flags uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	b = append(b, make([]byte, 8)...) // sequence and port: one question at a time
	return append(b, body...)
}
