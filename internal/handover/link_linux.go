// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// pair returns the two ends of a link.
func pair() (own, other *os.File, err error) {
	// Non-blocking, or os.File.Fd would make the socket block in both processes.
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link"), nil
}

// Duplicate returns a copy of an open socket for another process. Unlike the method File of the
// types of package net, with os/exec it does not make the socket block: both processes share this
// property, and a listener that blocks cannot be closed.
func Duplicate(socket syscall.Conn) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	err = raw.Control(func(own uintptr) { fd, dupErr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, dupErr); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

func isReset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// asSibling makes the program a child of the parent of this process, which is the service manager:
// systemd 252 stops a main process that is not its child with SIGKILL, and without a timeout. The
// first process of a PID namespace has no parent.
func asSibling(cmd *exec.Cmd) {
	if os.Getpid() != 1 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT}
	}
}

func closeOnExec(fd int) { unix.CloseOnExec(fd) }
