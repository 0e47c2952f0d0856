// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is how many packets one system call reads or sends. A server that is
// busier than this amounts to gains little from more.
const batchSize = 64

// batch is what one recvmmsg(2) has read, with the replies to it: 350 kB, of which
// the kernel provides what is used.
type batch struct {
	conn     syscall.RawConn
	packets  [batchSize]received
	incoming [batchSize]mmsghdr
	outgoing [batchSize]mmsghdr
	replies  int // in outgoing

	// What the system calls leave behind, and the functions that make them: a
	// closure for each call would be garbage.
	n     int
	err   syscall.Errno
	read  func(fd uintptr) bool
	sent  int
	write func(fd uintptr) bool
}

// received is a packet, and the room for the reply to it.
type received struct {
	packet  [maxQuery]byte
	control [controlLen]byte
	client  unix.RawSockaddrInet6 // with room for either family
	reply   [maxUDP]byte
	in, out unix.Iovec
}

// mmsghdr is the struct of recvmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
}

func newBatch(conn *net.UDPConn) (*batch, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &batch{conn: raw}
	for i := range b.packets {
		p := &b.packets[i]
		p.in.Base, p.out.Base = &p.packet[0], &p.reply[0]
		p.in.SetLen(len(p.packet))
		h := &b.incoming[i].header
		h.Name, h.Iov, h.Control = (*byte)(unsafe.Pointer(&p.client)), &p.in, &p.control[0]
		h.SetIovlen(1)
	}
	b.read = func(fd uintptr) bool {
		b.n, b.err = multiple(unix.SYS_RECVMMSG, fd, b.incoming[:])
		return b.err != unix.EAGAIN
	}
	b.write = func(fd uintptr) bool {
		b.n, b.err = multiple(unix.SYS_SENDMMSG, fd, b.outgoing[b.sent:b.replies])
		return b.err != unix.EAGAIN
	}
	return b, nil
}

// multiple calls recvmmsg or sendmmsg, and returns how many messages it took.
func multiple(call, fd uintptr, messages []mmsghdr) (int, syscall.Errno) {
	n, _, err := unix.Syscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), err
}

// receive waits for packets and returns how many there are. After the read deadline
// it returns those that have come before the error.
func (b *batch) receive() (int, error) {
	for i := range b.incoming {
		h := &b.incoming[i].header // the kernel has written into it
		h.Namelen = uint32(unsafe.Sizeof(b.packets[i].client))
		h.SetControllen(controlLen)
	}
	b.replies = 0
	err := b.conn.Read(b.read)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// Control has no deadline, and there is no waiting.
		if failed := b.conn.Control(func(fd uintptr) { b.read(fd) }); failed != nil || b.err != 0 {
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

// packet returns packet i. Of one that is longer than any query only the header is
// left: it is malformed, and told so.
func (b *batch) packet(i int) []byte {
	n := b.incoming[i].length
	if b.incoming[i].header.Flags&unix.MSG_TRUNC != 0 {
		n = min(n, headerLen)
	}
	return b.packets[i].packet[:n]
}

// room returns where the reply to packet i goes.
func (b *batch) room(i int) []byte { return b.packets[i].reply[:0] }

// client returns where packet i came from.
func (b *batch) client(i int) netip.AddrPort {
	from := &b.packets[i].client
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&from.Port))[:])
	if from.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(from)).Addr), port)
	}
	addr := netip.AddrFrom16(from.Addr)
	if from.Scope_id != 0 {
		addr = addr.WithZone(strconv.FormatUint(uint64(from.Scope_id), 10))
	}
	return netip.AddrPortFrom(addr, port)
}

// origin returns the control message that makes the reply to packet i leave from the
// address that was asked; none if the socket has but one.
func (b *batch) origin(i int) []byte {
	return replyControl(b.packets[i].control[:b.incoming[i].header.Controllen])
}

// reply has the reply to packet i, in its room, sent with the others.
func (b *batch) reply(i int, reply []byte) {
	p := &b.packets[i]
	p.out.SetLen(len(reply))
	h := &b.outgoing[b.replies].header
	*h = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&p.client)), Namelen: b.incoming[i].header.Namelen, Iov: &p.out}
	h.SetIovlen(1)
	if origin := b.origin(i); len(origin) > 0 {
		h.Control = &origin[0]
		h.SetControllen(len(origin))
	}
	b.replies++
}

// send sends the replies that it has, and has none then. A client that cannot be reached
// will ask again.
func (b *batch) send() {
	for b.sent = 0; b.sent < b.replies; {
		if err := b.conn.Write(b.write); err != nil {
			return
		}
		switch {
		case b.err == unix.EINTR:
		case b.err != 0:
			b.sent++ // the kernel refuses the first of the rest
		default:
			b.sent += b.n
		}
	}
	b.replies = 0
}

// rest waits. Go's own timers are too coarse: a process that has nothing else to do
// sleeps in epoll_wait(2), by the millisecond.
func rest(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // if a signal cuts it short, so be it
}
