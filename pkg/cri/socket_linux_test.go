// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

func TestListen_Private(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600,
		filepath.Dir(path): os.ModeDir | 0o700, path + ".lock": 0o600} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v (%v)", p, info.Mode(), want, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket still exists: %v", err)
	}
	managerSocket(t, path, 0o600).Close() // a stale socket
	if l, err = Listen(path); err != nil {
		t.Errorf("second Listen: %v", err)
	} else {
		l.Close()
	}
	must.Succeed(t, os.WriteFile(path, nil, 0o600))
	l, err = Listen(path)
	expectNoListener(t, l, err, "exists and is not a socket")
	l, err = Listen("shim.sock")
	expectNoListener(t, l, err, "must be absolute")
}

// expectNoListener fails the test unless there is an error with the text.
func expectNoListener(t *testing.T, l net.Listener, err error, want string) {
	t.Helper()
	if err == nil {
		l.Close()
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want %q", err, want)
	}
}

// TestListen_Parents has directories above the socket's that another user could rename.
func TestListen_Parents(t *testing.T) {
	const want = "another user could replace the socket"
	dir := t.TempDir()
	path := filepath.Join(dir, "above", "run", "shim.sock")
	must.Succeed(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Chmod(dir, 0o700), os.Symlink("above/run", dir+"/link")))
	expect := func(name, path string, allowed bool) {
		t.Helper()
		l, err := Listen(path)
		if err == nil {
			l.Close()
		}
		if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, allowed %v", name, err, allowed)
		}
	}
	above := filepath.Join(dir, "above")
	for _, tt := range []struct {
		name    string
		mode    os.FileMode
		allowed bool
	}{
		{"private", 0o700, true},
		{"writable by all", 0o777, false},
		{"writable by the group", 0o770, false},
		{"sticky", 0o777 | os.ModeSticky, true},
	} {
		must.Succeed(t, os.Chmod(above, tt.mode))
		expect(tt.name, path, tt.allowed)
		expect(tt.name+", through a link", dir+"/link/shim.sock", tt.allowed)
	}
	if os.Geteuid() != 0 {
		return
	}
	must.Succeed(t, errors.Join(os.Chmod(above, 0o755), os.Chown(above, 65534, 0)))
	expect("of another user", path, false)
	must.Succeed(t, errors.Join(os.Chown(above, 0, 0), os.Mkdir(dir+"/home", 0o755),
		os.Symlink(filepath.Dir(path), dir+"/home/run"), os.Chown(dir+"/home", 65534, 0)))
	expect("a link of another user", dir+"/home/run/shim.sock", false)
}

// managerSocket returns a socket that a service manager has opened at path.
func managerSocket(t *testing.T, path string, mode os.FileMode) *os.File {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	defer l.Close()
	must.Succeed(t, os.Chmod(path, mode))
	return socketFile(t, l)
}

func socketFile(t *testing.T, socket interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f := must.Get(socket.File())(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestInherit_TwoShims runs two shims, one after the other, on the socket of the service
// manager. A client that connects while no shim is running is served by the next one.
func TestInherit_TwoShims(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shim.sock")
	manager := managerSocket(t, path, 0o600)
	for range 2 {
		fd := must.Get(syscall.Dup(int(manager.Fd())))(t)
		client := must.Get(net.Dial("unix", path))(t)
		defer client.Close()
		l := must.Get(Inherit(path, os.NewFile(uintptr(fd), "shim.socket")))(t)
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is locked by another process") {
			t.Errorf("Listen while the first shim runs: %v", err)
		}
		c := must.Get(l.Accept())(t)
		c.Close()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the client receives %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("Listen on the manager's socket: %v", err)
	}
}

func TestInherit_Errors(t *testing.T) {
	tests := []struct {
		name string
		open func(t *testing.T, path string) *os.File
		want string
	}{
		{"socket at another path", func(t *testing.T, path string) *os.File { return managerSocket(t, path+"2", 0o600) },
			"set ListenStream= to the path"},
		{"TCP socket", func(t *testing.T, path string) *os.File {
			l := must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
			defer l.Close()
			return socketFile(t, l)
		}, `got tcp socket "127.0.0.1:`},
		{"unixpacket socket", func(t *testing.T, path string) *os.File {
			l := must.Get(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))(t)
			return socketFile(t, l)
		}, "got unixpacket socket"},
		{"connected socket", func(t *testing.T, path string) *os.File {
			l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
			t.Cleanup(func() { l.Close() })
			client := must.Get(net.Dial("unix", path))(t)
			t.Cleanup(func() { client.Close() })
			c := must.Get(l.AcceptUnix())(t)
			defer c.Close()
			return socketFile(t, c)
		}, "set Accept=no"},
		{"regular file", func(t *testing.T, path string) *os.File {
			return must.Get(os.Create(path))(t)
		}, "inheriting the socket of the service manager: "},
		{"socket for a group", func(t *testing.T, path string) *os.File { return managerSocket(t, path, 0o660) },
			"and mode 0660, want a socket with owner " + strconv.Itoa(os.Geteuid()) + ": set SocketMode=0600"},
		{"removed socket", func(t *testing.T, path string) *os.File {
			f := managerSocket(t, path, 0o600)
			must.Succeed(t, os.Remove(path))
			return f
		}, "no such file"},
		{"directory writable by others", func(t *testing.T, path string) *os.File {
			must.Succeed(t, os.Chmod(filepath.Dir(path), 0o777))
			return managerSocket(t, path, 0o600)
		}, "not writable by others"},
		{"another shim", func(t *testing.T, path string) *os.File {
			l := must.Get(Inherit(path, managerSocket(t, path, 0o600)))(t)
			t.Cleanup(func() { l.Close() })
			return managerSocket(t, path+"2", 0o600)
		}, "is locked by another process"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shim.sock")
			l, err := Inherit(path, tt.open(t, path))
			expectNoListener(t, l, err, tt.want)
		})
	}
}

// TestListen_OtherUser checks that the connection of another user is closed even if the
// modes allow it. The test runs its own binary as that user.
func TestListen_OtherUser(t *testing.T) {
	const variable = "SHIM_SOCKET"
	if path := os.Getenv(variable); path != "" {
		c := must.Get(net.Dial("unix", path))(t)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("the connection ends with %v, want EOF", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	dir := must.Get(os.MkdirTemp("", "shim"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shim.sock")
	l := must.Get(Listen(path))(t)
	for _, p := range []string{dir, path} {
		must.Succeed(t, os.Chmod(p, 0o777))
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		if c, err := l.Accept(); err == nil {
			c.Close()
			t.Error("another user was accepted")
		}
	}()

	self, err := os.ReadFile("/proc/self/exe") // the test binary's own directory is private
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "client")
	must.Succeed(t, os.WriteFile(program, self, 0o755))
	client := exec.Command(program, "-test.run=^"+t.Name()+"$")
	client.Env = append(os.Environ(), variable+"="+path)
	client.Dir = "/"
	client.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := client.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	l.Close()
	<-accepted
}

// TestShim_RuntimeIsShim replaces the runtime's path while the shim runs, so that it leads to
// the shim: calls fail with the reason instead of recursing, and succeed when it is corrected.
func TestShim_RuntimeIsShim(t *testing.T) {
	links := map[string]func(listen, path string) error{"symlink": os.Symlink}
	if os.Geteuid() == 0 {
		links["bind mount"] = func(listen, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), unix.Mount(listen, path, "", unix.MS_BIND, ""))
		}
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, passHook())
			c := runtimeapi.NewRuntimeServiceClient(n.shimmed)
			must.Get(c.Version(t.Context(), &runtimeapi.VersionRequest{}))(t)
			listen := n.shim.Listener.Addr().String()
			n.stopRuntime()
			must.Succeed(t, errors.Join(os.RemoveAll(n.runtimePath), link(listen, n.runtimePath)))
			defer func() { _ = unix.Unmount(n.runtimePath, unix.MNT_DETACH) }()
			before := heap()
			poll.UntilNil(t, "the reason in the error", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := c.Version(ctx, &runtimeapi.VersionRequest{})
				if status.Code(err) != codes.Unavailable {
					t.Fatalf("Version: %v", err)
				}
				// The connection may be found closed before the first attempt to dial.
				if !strings.Contains(err.Error(), "is the socket of the shim") {
					return err
				}
				return nil
			})
			if grown := heap() - before; grown > 5<<20 {
				t.Errorf("the heap has grown by %d octets", grown)
			}
			_ = unix.Unmount(n.runtimePath, unix.MNT_DETACH)
			must.Succeed(t, os.Remove(n.runtimePath))
			serveRuntime(t, n.runtimePath, n.runtime)
			poll.UntilNil(t, "a call after the correction", func() error {
				_, err := c.Version(t.Context(), &runtimeapi.VersionRequest{})
				return err
			})
		})
	}
}
