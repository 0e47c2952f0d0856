// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen creates the shim's socket at path, which must be absolute. A process that can write to
// this socket is root on the node. Therefore the mode of the socket is 0600, and connections of
// other users are closed. It is an error if other users can write to the directory of the socket,
// or replace a directory above it.
//
// A lock file beside the socket keeps a second shim from starting. A stale socket, which
// a crash leaves behind, is removed. A socket that another process serves, or a file that
// is not a socket, is an error. Closing the listener removes the socket.
func Listen(path string) (*Listener, error) {
	return lockAndOpen(path, listen)
}

// Inherit returns a listener on a socket on which the service manager listens at path,
// which must be absolute. Calls made while no shim is running wait in this socket. The
// socket must be as private as the one that Listen creates; the error names the setting
// of the service manager to change. Closing the listener does not remove the socket.
//
// Inherit closes socket.
func Inherit(path string, socket *os.File) (*Listener, error) {
	defer socket.Close()
	return lockAndOpen(path, func(path string) (*net.UnixListener, error) {
		l, err := net.FileListener(socket)
		if err == nil {
			if err = checkInherited(path, l); err == nil {
				return l.(*net.UnixListener), nil
			}
			l.Close()
		}
		return nil, fmt.Errorf("inheriting the socket of the service manager: %w", err)
	})
}

// lockAndOpen calls open with the directory checked and the lock held. The kernel releases
// the lock when the process ends, so a service manager can start the next shim at once.
func lockAndOpen(path string, open func(path string) (*net.UnixListener, error)) (*Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("listening on %q: the path must be absolute", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the socket directory: %w", err)
	}
	if err := checkDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := acquireLock(lockPath(path))
	if err != nil {
		return nil, err
	}
	l, err := open(path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Listener{UnixListener: l, lock: lock}, nil
}

func lockPath(socket string) string { return socket + ".lock" }

// acquireLock locks the file at path until it is closed. The file is never removed:
// otherwise two shims could lock two different files of this name.
func acquireLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, fmt.Errorf("%s is locked by another process, a shim or an agent: stop it or choose another path", path)
	default:
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
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
		return wrongType(path, os.ModeSocket)
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

// checkInherited returns an error unless l is private and listens at path.
func checkInherited(path string, l net.Listener) error {
	socket, isUnix := l.(*net.UnixListener)
	if a := l.Addr(); !isUnix || a.Network() != "unix" || a.String() != path {
		return fmt.Errorf("got %s socket %q, want unix stream socket %q: set ListenStream= to the path on which the shim listens",
			a.Network(), a, path)
	}
	listens, err := option(socket, func(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) })
	if err != nil {
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
		return fmt.Errorf("%s has owner %d and mode %#o, want a socket with owner %d: set SocketMode=0600",
			path, st.Uid, mode, os.Geteuid())
	}
	return nil
}

// A Listener accepts connections of the shim's own user only.
type Listener struct {
	*net.UnixListener
	lock     *os.File
	held     atomic.Bool // Close keeps the lock
	unserved sync.WaitGroup
}

// HoldLock makes Close keep the lock, until release is called.
func (l *Listener) HoldLock() (release func()) {
	l.held.Store(true)
	return func() { _ = l.lock.Close() }
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := option(c, func(fd int) (*unix.Ucred, error) { return unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED) })
		if err == nil && int(peer.Uid) == os.Geteuid() {
			l.unserved.Add(1)
			return &conn{UnixConn: c, served: sync.OnceFunc(l.unserved.Done)}, nil
		}
		c.Close()
	}
}

// awaitServed waits until the server has begun to serve all accepted connections: a gRPC server
// that is stopped closes those that it has not begun to serve, and their calls fail. It must be
// called after the last call of Accept.
func (l *Listener) awaitServed() { l.unserved.Wait() }

// Close closes the socket, and releases the lock unless the shim that serves it still runs.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if !l.held.Load() {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// conn is an accepted connection.
type conn struct {
	*net.UnixConn
	served func() // is called when the server begins to serve the connection
}

// Write is the server's first operation: it sends its settings.
func (c *conn) Write(b []byte) (int, error) {
	c.served()
	return c.UnixConn.Write(b)
}

func (c *conn) Close() error {
	c.served()
	return c.UnixConn.Close()
}

// option returns the option of a socket that get reads.
func option[T any](c syscall.Conn, get func(fd int) (T, error)) (value T, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return value, err
	}
	control := raw.Control(func(fd uintptr) { value, err = get(int(fd)) })
	return value, errors.Join(control, err)
}
