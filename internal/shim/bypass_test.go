// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package shim

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// serve listens at path and sends its name to every client.
func serve(t *testing.T, path string) {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, filepath.Base(path))
			c.Close()
		}
	}()
}

func connect(t *testing.T, path string) string {
	t.Helper()
	c := must.Get(net.Dial("unix", path))(t)
	defer c.Close()
	name := must.Get(io.ReadAll(c))(t)
	return string(name)
}

func newBypass(t *testing.T) *Bypass {
	t.Helper()
	dir, err := os.MkdirTemp("", "bypass") // t.TempDir exceeds the length of a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &Bypass{
		Socket: filepath.Join(dir, "run/shim.sock"), Runtime: filepath.Join(dir, "runtime.sock"),
		State: filepath.Join(dir, "state"),
	}
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	return b
}

func TestBypass(t *testing.T) {
	b := newBypass(t)
	serve(t, b.Socket)
	serve(t, b.Runtime)
	if r, err := b.Active(); r != nil || err != nil {
		t.Fatalf("before: %v, %v", r, err)
	}
	if got := connect(t, b.Socket); got != "shim.sock" {
		t.Fatal(got)
	}
	for range 2 { // a second call keeps the record
		must.Succeed(t, b.Begin("crashes"))
		if got := connect(t, b.Socket); got != "runtime.sock" {
			t.Errorf("during the bypass, %s answers", got)
		}
		r, err := b.Active()
		if err != nil || r.Reason != "crashes" || r.Runtime != b.Runtime || r.Since.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
	}
	must.Succeed(t, b.End())
	if r, err := b.Active(); r != nil || err != nil {
		t.Errorf("after: %v, %v", r, err)
	}
	serve(t, b.Socket) // fails if the link is left
	if got := connect(t, b.Socket); got != "shim.sock" {
		t.Errorf("after the bypass, %s answers", got)
	}
	if err := b.End(); err != nil {
		t.Errorf("a second end: %v", err)
	}
	if got := connect(t, b.Socket); got != "shim.sock" {
		t.Errorf("a second end removed the socket: %s", got)
	}
}

// TestBypass_Broken: the link is made without a record, and a record that cannot be read counts.
func TestBypass_Broken(t *testing.T) {
	b := newBypass(t)
	serve(t, b.Runtime)
	if err := os.WriteFile(b.State, nil, 0o600); err != nil { // the directory cannot be created
		t.Fatal(err)
	}
	if err := b.Begin("crashes"); err == nil {
		t.Error("no error without a record")
	}
	if got := connect(t, b.Socket); got != "runtime.sock" {
		t.Errorf("%s answers", got)
	}
	must.Succeed(t, errors.Join(os.Remove(b.State), os.Mkdir(b.State, 0o700),
		os.WriteFile(filepath.Join(b.State, "bypass.json"), nil, 0o600)))
	if r, err := b.Active(); err != nil || r == nil || r.Since.IsZero() || r.Reason == "" {
		t.Errorf("an empty record: %+v, %v", r, err)
	}
}

func TestLinkRuntime(t *testing.T) {
	b := newBypass(t)
	for _, runtime := range []string{"/run/a.sock", "/run/a.sock", "/run/b.sock"} {
		b.Runtime = runtime
		must.Succeed(t, b.LinkRuntime())
		if got, err := os.Readlink(filepath.Join(b.State, "runtime.sock")); got != runtime {
			t.Errorf("%s, %v, want %s", got, err, runtime)
		}
	}
	if entries, err := os.ReadDir(b.State); len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestBypass_Leftovers: the end of a bypass removes the temporary files of calls that were killed.
func TestBypass_Leftovers(t *testing.T) {
	b := newBypass(t)
	must.Succeed(t, b.Begin("crashes"))
	leftover := filepath.Join(b.State, ".bypass.json.123")
	must.Succeed(t, os.WriteFile(leftover, nil, 0o600))
	if err := b.End(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", leftover, err)
	}
}
