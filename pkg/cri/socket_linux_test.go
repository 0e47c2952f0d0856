// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListenIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700, path + ".lock": 0o600} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v (%v)", p, info.Mode(), want, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if l, err = Listen(path); err != nil {
		t.Errorf("listening again: %v", err)
	} else {
		l.Close()
	}
}

func TestListenRefuses(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    string
	}{
		{"a second shim", func(t *testing.T, path string) {
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "another shim holds "},
		{"a living server of somebody else", func(t *testing.T, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, "somebody answers on "},
		{"a file in its place", func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is there and is no socket"},
		{"a directory that others write to", func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "others must not write to it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shim.sock")
			tt.prepare(t, path)
			l, err := Listen(path)
			if err == nil {
				l.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
	if _, err := Listen("shim.sock"); err == nil || !strings.Contains(err.Error(), "must be absolute") {
		t.Errorf("a relative path: %v", err)
	}
}

// handedOver returns a socket as a service manager would open it at path.
func handedOver(t *testing.T, path string, mode os.FileMode) *os.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return file(t, l)
}

func file(t *testing.T, socket interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// One shim after the other serves on the manager's socket. A client that comes
// between them waits for the second.
func TestInherit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shim.sock")
	manager := handedOver(t, path, 0o600)
	for range 2 {
		handed, err := syscall.Dup(int(manager.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		l, err := Inherit(path, os.NewFile(uintptr(handed), "shim.socket"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another shim holds ") {
			t.Errorf("a second shim beside it: %v", err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the client reads %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "somebody answers on ") {
		t.Errorf("a shim of its own in the place of the manager's socket: %v", err)
	}
}

func TestInheritRefuses(t *testing.T) {
	tests := []struct {
		name string
		hand func(t *testing.T, path string) *os.File
		want string
	}{
		{"a socket at another path", func(t *testing.T, path string) *os.File { return handedOver(t, path+"2", 0o600) }, "ListenStream= and the shim's listen must be the same"},
		{"a socket of TCP", func(t *testing.T, path string) *os.File {
			l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return file(t, l)
		}, `it is the tcp socket "127.0.0.1:`},
		{"a socket of packets", func(t *testing.T, path string) *os.File {
			l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
			if err != nil {
				t.Fatal(err)
			}
			return file(t, l)
		}, "it is the unixpacket socket"},
		{"one connection", func(t *testing.T, path string) *os.File {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			client, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			c, err := l.AcceptUnix()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			return file(t, c)
		}, "it must be Accept=no"},
		{"no socket", func(t *testing.T, path string) *os.File {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}, "taking over the socket of the service manager: "},
		{"a socket for a group", func(t *testing.T, path string) *os.File { return handedOver(t, path, 0o660) }, "with mode 0660: it must be a socket of ours, with SocketMode=0600"},
		{"a socket whose name is gone", func(t *testing.T, path string) *os.File {
			f := handedOver(t, path, 0o600)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return f
		}, "no such file"},
		{"a directory that others write to", func(t *testing.T, path string) *os.File {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			return handedOver(t, path, 0o600)
		}, "others must not write to it"},
		{"a second shim", func(t *testing.T, path string) *os.File {
			l, err := Inherit(path, handedOver(t, path, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return handedOver(t, path+"2", 0o600)
		}, "another shim holds "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shim.sock")
			l, err := Inherit(path, tt.hand(t, path))
			if err == nil {
				l.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
}

// What a crash leaves behind does not keep the next shim from starting.
func TestListenRemovesAbandonedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shim.sock")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// Another user is turned away even if the modes let it in. The test starts itself
// once more as that user.
func TestAcceptTurnsOtherUsersAway(t *testing.T) {
	const variable = "SHIM_SOCKET"
	if path := os.Getenv(variable); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("the connection of a stranger ends with %v", err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shim.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, path} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		if c, err := l.Accept(); err == nil {
			c.Close()
			t.Error("a stranger was accepted")
		}
	}()

	self, err := os.ReadFile("/proc/self/exe") // the test binary's own directory is private
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "stranger")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command(program, "-test.run=^"+t.Name()+"$")
	stranger.Env = append(os.Environ(), variable+"="+path)
	stranger.Dir = "/"
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := stranger.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	l.Close()
	<-accepted
}
