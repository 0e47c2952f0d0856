// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// receiveBufferUDP is the size of a socket's receive buffer, in octets. The kernel cuts it to net.core.rmem_max.
const receiveBufferUDP = 4 << 20

// sendBufferUDP is the size of a UDP socket's send buffer, in octets, which the kernel doubles. Without CAP_NET_ADMIN
// the kernel cuts it to net.core.wmem_max. A reply stays in the buffer while the kernel looks for the link-layer
// address of its client, 3 s by default, up to 208 KiB for each neighbor (unres_qlen_bytes in arp(7)). With the
// kernel's default size, also 208 KiB, 256 queries from one address that does not answer ARP stop the replies to all
// clients for 3 s. This size has room for 39 such addresses.
const sendBufferUDP = 4 << 20

// bufferTCP is the size of each of the two buffers of a TCP connection, in octets. The kernel uses half
// of a buffer for its own data. This memory counts for the limit of the pod, not for Limits.MaxMemory, and
// the kernel's defaults are megabytes. 25 queries fit.
const bufferTCP = 8 << 10

// limitBuffers sets the sizes of the buffers of the connections that l will accept, best effort. An accepted
// connection is too late: its client has been told how much it may send. The kernel doubles the argument (socket(7)).
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

// setOptions sets the options of a UDP socket. For a wildcard address it requests control
// messages with the destination address of each packet.
func setOptions(c syscall.RawConn, network string, wildcard bool) error {
	return withDescriptor(c, func(fd int) error { return setDescriptorOptions(fd, network, wildcard) })
}

func setDescriptorOptions(fd int, network string, wildcard bool) error {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBufferUDP) // best effort
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBufferUDP); err != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBufferUDP) // best effort
	}
	// A forged ICMP "fragmentation needed" must not make the kernel fragment replies: attackers can replace single
	// fragments (RFC 9715 section 3.1). A dual-stack socket needs the option of both families. A socket for IPv6
	// alone may reject the option of IPv4. Therefore the error of that option is returned for IPv4 sockets only.
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

// share sets SO_REUSEPORT, which allows several sockets to have the same address. It is the Control of a
// [net.ListenConfig].
func share(_, _ string, c syscall.RawConn) error {
	return withDescriptor(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
}

// takeOver makes the kernel deliver all packets and connections for an address to the newer one of two sockets.
//
// The kernel numbers the sockets that share an address in the order of their opening, from 0. A BPF program returns
// the number of the socket for each packet or connection. This program returns 1, the second socket. If there is only
// one socket, 1 is out of range, and the kernel falls back to that socket. The program is attached to the group of
// sockets: it applies to a later socket as soon as that is open, and is released with the last socket. It cannot be
// attached before the socket has its address: the kernel then refuses the address of another socket.
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
func socketDrops(conn *udpSocket) (n uint32, err error) {
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

// batchSize is the largest number of packets that one system call reads or sends. A larger batch
// saves little, even on a busy server.
const batchSize = 64

// controlLen is the size of the buffer for the control message with the destination address of a
// packet, in octets: a unix.Cmsghdr and a unix.Inet6Pktinfo take 40.
const controlLen = 64

// batch holds the packets that one recvmmsg(2) has read, and the replies to them. It takes 357 kB of address space;
// 274 kB are resident from the start (mincore(2)): newBatch writes to each of the packetBuffers.
type batch struct {
	socket   *udpSocket
	conn     syscall.RawConn
	held     heldWait
	packets  [batchSize]packetBuffers
	incoming [batchSize]mmsghdr
	outgoing [batchSize]mmsghdr
	replies  int // in outgoing

	// The system calls and their results. The functions are fields, because a closure for
	// each call would be allocated.
	read  func(fd uintptr) bool // recvmmsg(2) into incoming; false: no packet yet
	write func(fd uintptr) bool // sendmmsg(2) of outgoing[sent:replies]; false: the buffer is full
	n     int                   // packets that the last call transferred
	err   syscall.Errno         // of the last call
	sent  int                   // replies that send has sent or skipped
}

// packetBuffers is the memory for a packet and for the reply to it.
type packetBuffers struct {
	packet  [maxQuery]byte
	control [controlLen]byte
	client  unix.RawSockaddrInet6 // large enough for either family
	reply   [maxUDP]byte
	in, out unix.Iovec
}

// mmsghdr is the struct of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

// newBatch returns a batch for a socket. waits counts how often send finds the send buffer full.
func newBatch(conn *udpSocket, waits prometheus.Counter) (*batch, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &batch{socket: conn, conn: raw}
	b.held.init(b)
	for i := range b.packets {
		p := &b.packets[i]
		p.in.Base, p.out.Base = &p.packet[0], &p.reply[0]
		p.in.SetLen(len(p.packet))
		h := &b.incoming[i].header
		h.Name, h.Iov, h.Control = (*byte)(unsafe.Pointer(&p.client)), &p.in, &p.control[0]
		h.SetIovlen(1)
	}
	b.read = func(fd uintptr) bool {
		b.n, b.err = callMmsg(unix.SYS_RECVMMSG, fd, b.incoming[:])
		return b.err != unix.EAGAIN
	}
	b.write = func(fd uintptr) bool {
		b.n, b.err = callMmsg(unix.SYS_SENDMMSG, fd, b.outgoing[b.sent:b.replies])
		if b.err == unix.EAGAIN {
			waits.Inc()
			return conn.waitForRoom(fd)
		}
		return true
	}
	return b, nil
}

// callMmsg calls recvmmsg(2) or sendmmsg(2), and returns how many messages it transferred. It does not tell
// the runtime about the system call, which does not block: the runtime would wake its monitor thread, which
// took 15 % of the CPU time of a cache miss.
func callMmsg(call, fd uintptr, messages []mmsghdr) (int, syscall.Errno) {
	n, _, err := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), err
}

// receive waits for packets and returns how many there are. After stopReading it first returns the
// packets that have arrived, and then [os.ErrDeadlineExceeded]. If the socket is outside of the runtime's
// poller and wait is false, receive does not wait and may return 0.
func (b *batch) receive(wait bool) (int, error) {
	for i := range b.incoming {
		h := &b.incoming[i].header // the kernel has overwritten both lengths
		h.Namelen = uint32(unsafe.Sizeof(b.packets[i].client))
		h.SetControllen(controlLen)
	}
	b.replies = 0
	if b.socket.file != nil {
		return b.receiveHeld(wait)
	}
	err := b.conn.Read(b.read)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// Control ignores the deadline, and the read does not block.
		if controlErr := b.conn.Control(func(fd uintptr) { b.read(fd) }); controlErr != nil || b.err != 0 {
			return 0, err
		}
		return b.n, nil
	}
	if err != nil {
		return 0, err
	}
	if b.err != 0 {
		return 0, b.err
	}
	return b.n, nil
}

// packet returns packet i, the memory for the reply to it, and the address that it came from. A
// packet longer than maxQuery is cut to its header, so that it gets the reply to a malformed query.
func (b *batch) packet(i int) (packet, buf []byte, client netip.AddrPort) {
	p, n := &b.packets[i], b.incoming[i].length
	if b.incoming[i].header.Flags&unix.MSG_TRUNC != 0 {
		n = min(n, headerLen)
	}
	packet, buf = p.packet[:n], p.reply[:0]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&p.client.Port))[:])
	if p.client.Family == unix.AF_INET {
		return packet, buf, netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&p.client)).Addr), port)
	}
	addr := netip.AddrFrom16(p.client.Addr)
	if p.client.Scope_id != 0 {
		addr = addr.WithZone(strconv.FormatUint(uint64(p.client.Scope_id), 10))
	}
	return packet, buf, netip.AddrPortFrom(addr, port)
}

// reply queues the reply to packet i for send. It copies the reply to the memory for it,
// unless the caller has written it there.
func (b *batch) reply(i int, reply []byte) {
	p := &b.packets[i]
	p.out.SetLen(copy(p.reply[:], reply))
	b.outgoing[b.replies] = newMessage(&p.out, &p.client, b.incoming[i].header.Namelen, b.oob(i))
	b.replies++
}

// newMessage returns the argument of sendmmsg(2) for a reply to a client.
func newMessage(out *unix.Iovec, client *unix.RawSockaddrInet6, length uint32, control []byte) mmsghdr {
	h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(client)), Namelen: length, Iov: out}
	h.SetIovlen(1)
	if len(control) > 0 {
		h.Control = &control[0]
		h.SetControllen(len(control))
	}
	return mmsghdr{header: h}
}

// send sends the queued replies, best effort: a client without a reply sends its query again.
func (b *batch) send() {
	for b.sent = 0; b.sent < b.replies; {
		if err := b.conn.Write(b.write); err != nil {
			return
		}
		switch {
		case b.err == unix.EINTR, b.err == unix.EAGAIN: // after waitForRoom
		case b.err != 0:
			b.sent++ // sendmmsg(2) returns an error for the first message only: skip this one
		default:
			b.sent += b.n
		}
	}
	b.replies = 0
}

// deferred returns a function that sends the reply to packet i, best effort, after the batch is reused. Its
// control message is empty if the socket is bound to a single address.
func (b *batch) deferred(i int) (send func(wire []byte)) {
	socket := b.socket
	client, length, control := b.packets[i].client, b.incoming[i].header.Namelen, bytes.Clone(b.oob(i))
	return func(wire []byte) {
		out := unix.Iovec{Base: &wire[0]}
		out.SetLen(len(wire))
		message := [1]mmsghdr{newMessage(&out, &client, length, control)}
		_ = b.conn.Write(func(fd uintptr) bool {
			for {
				if _, err := callMmsg(unix.SYS_SENDMMSG, fd, message[:]); err != unix.EAGAIN {
					return true
				}
				if !socket.waitForRoom(fd) {
					return false
				}
			}
		})
	}
}

// oob returns the control message for the reply to packet i. It selects the source address of
// the reply: the destination address of the packet. The routing table chooses the interface, except
// for link-local addresses, which need one. It is empty if the socket is bound to a single address.
// oob converts the control message of the packet in place.
func (b *batch) oob(i int) []byte {
	control := b.packets[i].control[:b.incoming[i].header.Controllen]
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
		if local := netip.AddrFrom16(info.Addr); local.Is4In6() || !local.IsLinkLocalUnicast() {
			info.Ifindex = 0
		}
		return control[:unix.CmsgSpace(unix.SizeofInet6Pktinfo)]
	}
	return nil
}
