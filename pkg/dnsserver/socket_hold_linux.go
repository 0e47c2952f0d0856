// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A reader that waits in the runtime's poller pays for wake-ups: a packet wakes the thread in epoll_wait(2), and that
// thread often wakes another one, which reads. An ordinary blocking call is no better: the scheduler takes the processor
// away and wakes its monitor thread for each packet (53 us of CPU time a query instead of 31, at 2,000 a second on a
// busy machine). Therefore the first reader of a socket waits in ppoll(2) by a raw system call. The scheduler does not
// know that the thread waits, and leaves its processor with it: docs/benchmarks.md has the figures. At 2,000 queries a
// second it gains nothing.
//
// Other goroutines must not miss that processor, therefore GOMAXPROCS is higher by the number of these readers: with
// GOMAXPROCS=1 and no other processor, GET /metrics took 41 ms instead of 2.4. A waiting thread uses no CPU time, so that
// the gain is the same with a CPU quota of one processor.

// holdTime is how long a reader without packets holds its processor. While it does, the scheduler's monitor thread
// wakes every 10 ms.
const holdTime = 20 * time.Millisecond

// udpSocket is a UDP socket.
type udpSocket struct {
	*net.UDPConn          // in the runtime's poller; closed if file is set
	file         *os.File // the socket outside of the poller; nil: see HoldProcessor
}

// HoldProcessor makes the first reader of each UDP socket hold its processor of the scheduler while it waits for packets,
// and raises GOMAXPROCS by the number of these readers until restore is called. Sockets in excess of GOMAXPROCS are
// left out. It must be called before [Server.Run]. It is a no-op if GOMAXPROCS is 1 or set by the environment variable:
// more would be another number than the user or the machine has. The runtime no longer adapts GOMAXPROCS to a CPU quota
// that changes.
func (s *Sockets) HoldProcessor() (restore func()) {
	processors := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || processors == 1 {
		return func() {}
	}
	held := min(len(s.udp), processors)
	for _, c := range s.udp[:held] {
		c.leavePoller()
	}
	runtime.GOMAXPROCS(processors + held)
	return func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - held) }
}

// leavePoller removes the socket from the runtime's poller, best effort: without a free file descriptor it remains.
// In the poller each packet would wake a thread. [net.UDPConn.Close] removes its own descriptor, and the duplicate is
// not added because it is in blocking mode. All reads and writes have MSG_DONTWAIT.
func (s *udpSocket) leavePoller() {
	conn, err := s.UDPConn.SyscallConn()
	if err != nil {
		return
	}
	_ = withDescriptor(conn, func(fd int) error {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.SetNonblock(own, false); err != nil {
			return unix.Close(own)
		}
		s.file = os.NewFile(uintptr(own), "udp")
		return nil
	})
	if s.file != nil {
		s.UDPConn.Close()
	}
}

// SyscallConn returns the descriptor.
func (s *udpSocket) SyscallConn() (syscall.RawConn, error) {
	if s.file != nil {
		return s.file.SyscallConn()
	}
	return s.UDPConn.SyscallConn()
}

// stopReading ends all reads, now and later, after the packets that have arrived. shutdown(2) of an unconnected socket
// returns ENOTCONN, but wakes all that poll it for POLLRDHUP (inet_shutdown in Linux, "Hack to wake up other listeners").
func (s *udpSocket) stopReading() {
	if s.file == nil {
		s.SetReadDeadline(time.Unix(1, 0))
		return
	}
	if conn, err := s.file.SyscallConn(); err == nil {
		_ = withDescriptor(conn, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_RD) })
	}
}

// Close closes the socket. Readers return [net.ErrClosed].
func (s *udpSocket) Close() error {
	if s.file == nil {
		return s.UDPConn.Close()
	}
	conn, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	return withDescriptor(conn, func(fd int) error { // which stays open until the readers have left it
		err := s.file.Close()
		_ = unix.Shutdown(fd, unix.SHUT_RD)
		return err
	})
}

// waitForRoom waits until the send buffer has room. It returns false if the caller waits in the runtime's poller
// instead. The caller has the lock for writes, so that one thread at a time blocks.
func (s *udpSocket) waitForRoom(fd uintptr) bool {
	if s.file == nil {
		return false
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
	return true
}

// heldWait is the state of a reader outside of the runtime's poller. It is in the memory of a batch, because system
// calls write to it.
type heldWait struct {
	read, wait func(fd uintptr) // fields for the same reason as those of batch
	poll       [1]unix.PollFd
	timeout    unix.Timespec
	stopped    bool // stopReading or Close has been called
}

func (h *heldWait) init(b *batch) {
	h.read = func(fd uintptr) { b.read(fd) }
	h.wait = func(fd uintptr) {
		h.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
		if !h.waitHolding() {
			_, _ = unix.Poll(h.poll[:], -1) // the scheduler takes the processor away
		}
		h.stopped = h.poll[0].Revents&unix.POLLRDHUP != 0
	}
}

// waitHolding waits for holdTime, and reports whether there are packets or the socket is stopped.
//
// The runtime interrupts the call by a signal when it needs the goroutine to stop, for garbage collection or after
// 10 ms, and repeats the signal until the goroutine has stopped. A loop of raw system calls alone would never stop.
func (h *heldWait) waitHolding() bool {
	h.timeout = unix.NsecToTimespec(int64(holdTime)) // the kernel writes the rest to it
	for {
		n, _, err := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&h.poll)), 1, uintptr(unsafe.Pointer(&h.timeout)), 0, 0, 0)
		if err != unix.EINTR {
			return n == 1
		}
		runtime.Gosched()
	}
}

// receiveHeld is receive for a socket outside of the runtime's poller.
func (b *batch) receiveHeld(wait bool) (int, error) {
	for {
		if b.conn.Control(b.held.read) != nil {
			return 0, net.ErrClosed
		}
		switch {
		case b.err == 0:
			return b.n, nil
		case b.err != unix.EAGAIN:
			return 0, b.err
		case b.held.stopped:
			return 0, os.ErrDeadlineExceeded
		case !wait:
			return 0, nil
		case b.conn.Control(b.held.wait) != nil:
			return 0, net.ErrClosed
		}
	}
}

// pause sleeps. Go's timers are too coarse: a process with nothing else to do sleeps in
// epoll_wait(2), which counts milliseconds.
func (b *batch) pause(d time.Duration) {
	t := &b.held.timeout
	*t = unix.NsecToTimespec(int64(d))
	if b.socket.file != nil { // an interrupted sleep is fine
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(t)), 0, 0)
		return
	}
	_ = unix.Nanosleep(t, nil)
}
