// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens the shim's socket at path, an absolute path. Whoever can write to it
// is root on the node, so the directory is made for us alone, the socket has mode
// 0600, and a peer with another user ID than ours is turned away.
//
// A lock beside the socket keeps a second shim out; the error says so. A socket that
// nobody answers on is what a crash leaves behind, and is removed. One that somebody
// answers on, or that is not a socket, is not touched. Closing the listener removes
// the socket.
func Listen(path string) (net.Listener, error) {
	return locked(path, listen)
}

// Inherit takes over a socket that a service manager listens on at path, an absolute
// path. The calls that came while no shim was there have waited in it. It is held to
// what Listen makes: the error says what the manager has to change. Closing the
// listener leaves the socket to the manager, for the next shim.
//
// Inherit closes socket.
func Inherit(path string, socket *os.File) (net.Listener, error) {
	defer socket.Close()
	return locked(path, func(path string) (*net.UnixListener, error) { return inherit(path, socket) })
}

// locked returns what open makes of path once the directory is ours alone and no
// other shim is there. The lock ends with the process, however that ends: a service
// manager that starts the next one when this one is gone finds it free.
func locked(path string, open func(path string) (*net.UnixListener, error)) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("listening on %q: the path must be absolute", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the socket: %w", err)
	}
	if err := private(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := acquire(path + ".lock")
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

// private refuses a directory in which others than we could swap the socket.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("looking at the directory of the socket: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the directory of the socket, %s, belongs to user %d with mode %v: it must be ours, and others must not write to it", dir, st.Uid, info.Mode().Perm())
	}
	return nil
}

// acquire locks the file at path until it is closed. The file stays: to remove it
// would let two holders lock two files of one name.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another shim holds %s", path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// listen binds path. Until the mode is set, Accept keeps other users out.
func listen(path string) (*net.UnixListener, error) {
	if err := removeAbandoned(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("making the socket private: %w", err)
	}
	return l, nil
}

// removeAbandoned removes a socket on which nobody answers.
func removeAbandoned(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at the socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there and is no socket; remove it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("somebody answers on %s; stop it or choose another path", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("trying whether somebody answers on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the abandoned socket: %w", err)
	}
	return nil
}

// inherit checks that socket listens at path and lets in nobody else.
func inherit(path string, socket *os.File) (*net.UnixListener, error) {
	anyone, err := net.FileListener(socket)
	if err != nil {
		return nil, fmt.Errorf("taking over the socket of the service manager: %w", err)
	}
	if err := inheritable(path, anyone); err != nil {
		anyone.Close()
		return nil, fmt.Errorf("taking over the socket of the service manager: %w", err)
	}
	return anyone.(*net.UnixListener), nil
}

func inheritable(path string, anyone net.Listener) error {
	l, unixSocket := anyone.(*net.UnixListener)
	if a := anyone.Addr(); !unixSocket || a.Network() != "unix" || a.String() != path {
		return fmt.Errorf("it is the %s socket %q, want the unix stream socket %q: ListenStream= and the shim's listen must be the same", a.Network(), a, path)
	}
	raw, err := l.SyscallConn()
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
		return fmt.Errorf("nobody listens on %s: it must be Accept=no", path)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	if mode := st.Mode & 0o777; st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() || mode&0o077 != 0 {
		return fmt.Errorf("%s belongs to user %d with mode %#o: it must be a socket of ours, with SocketMode=0600", path, st.Uid, mode)
	}
	return nil
}

// listener accepts our own user alone.
type listener struct {
	*net.UnixListener
	lock *os.File
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(c); err == nil && uid == os.Geteuid() {
			return c, nil
		}
		c.Close()
	}
}

func (l *listener) Close() error {
	return errors.Join(l.UnixListener.Close(), l.lock.Close())
}

// peer returns the user ID at the other end of c.
func peer(c *net.UnixConn) (int, error) {
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
