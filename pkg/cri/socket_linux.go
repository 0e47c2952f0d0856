// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Listen creates the shim's socket at path, which must be absolute. A process that can
// write to this socket is root on the node. So only the shim's user may write to its directory,
// other users cannot replace the directories above, the mode of the socket is 0600, and connections of other users are closed.
//
// A lock file beside the socket keeps a second shim from starting. A stale socket, which
// a crash leaves behind, is removed. A socket that another process serves, or a file that
// is not a socket, is an error. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	return lockAndOpen(path, listen)
}

// Inherit returns a listener on a socket on which the service manager listens at path,
// which must be absolute. Calls made while no shim is running wait in this socket. The
// socket must be as private as the one that Listen creates; the error names the setting
// of the service manager to change. Closing the listener does not remove the socket.
//
// Inherit closes socket.
func Inherit(path string, socket *os.File) (net.Listener, error) {
	defer socket.Close()
	return lockAndOpen(path, func(path string) (*net.UnixListener, error) { return inherit(path, socket) })
}

// lockAndOpen calls open with the directory checked and the lock held. The kernel releases
// the lock when the process ends, so a service manager can start the next shim at once.
func lockAndOpen(path string, open func(path string) (*net.UnixListener, error)) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("listening on %q: the path must be absolute", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the socket directory: %w", err)
	}
	if err := CheckDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := acquireLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	l, err := open(path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &listener{UnixListener: l, lock: lock}, nil
}

// acquireLock locks the file at path until it is closed. The file is never removed:
// otherwise two shims could lock two different files of this name.
func acquireLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is locked by another shim: stop it or choose another path", path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// listen binds path. Until the mode is set, only listener.Accept keeps other users out.
func listen(path string) (*net.UnixListener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("setting the mode of the socket: %w", err)
	}
	return l, nil
}

// removeStaleSocket removes a socket on which no process listens.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("checking the socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: remove it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("%s is in use by another process: stop it or choose another path", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("checking whether %s is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the stale socket: %w", err)
	}
	return nil
}

// inherit returns a listener on socket if it is private and listens at path.
func inherit(path string, socket *os.File) (*net.UnixListener, error) {
	l, err := net.FileListener(socket)
	if err != nil {
		return nil, fmt.Errorf("inheriting the socket of the service manager: %w", err)
	}
	if err := checkInherited(path, l); err != nil {
		l.Close()
		return nil, fmt.Errorf("inheriting the socket of the service manager: %w", err)
	}
	return l.(*net.UnixListener), nil
}

func checkInherited(path string, l net.Listener) error {
	socket, isUnix := l.(*net.UnixListener)
	if a := l.Addr(); !isUnix || a.Network() != "unix" || a.String() != path {
		return fmt.Errorf("got %s socket %q, want unix stream socket %q: set ListenStream= to the path on which the shim listens", a.Network(), a, path)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var listens int
	var optErr error
	err = raw.Control(func(fd uintptr) { listens, optErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN) })
	if err := errors.Join(err, optErr); err != nil {
		return err
	}
	if listens == 0 {
		return fmt.Errorf("%s is not a listening socket: set Accept=no", path)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	if mode := st.Mode & 0o777; st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || mode&0o077 != 0 {
		return fmt.Errorf("%s has owner %d and mode %#o, want a socket with owner %d: set SocketMode=0600", path, st.Uid, mode, os.Geteuid())
	}
	return nil
}

// listener accepts connections of the shim's own user only.
type listener struct {
	*net.UnixListener
	lock *os.File
	held atomic.Bool // Close keeps the lock
}

// holdLock makes Close keep the lock, until release is called.
func (l *listener) holdLock() (release func()) {
	l.held.Store(true)
	return func() { _ = l.lock.Close() }
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(c); err == nil && uid == os.Geteuid() {
			return c, nil
		}
		c.Close()
	}
}

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if !l.held.Load() {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// peerUID returns the user ID of the process at the other end of c.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
