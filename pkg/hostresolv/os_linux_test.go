// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const childVariable = "HOSTRESOLV_TEST_DIRECTORY"

// inChild runs the test again in a child process, where it returns a directory and true. There
// the test may change the user of the process, and with unshare its mounts. It needs root.
func inChild(t *testing.T, unshare uintptr) (tree, bool) {
	t.Helper()
	if dir := os.Getenv(childVariable); dir != "" {
		return tree{t, dir}, true
	}
	if os.Getuid() != 0 {
		t.Skip("needs root for a bind mount or another user")
	}
	d := newTree(t) // removed by this process, which is still root
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"="+d.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unshare}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return d, false
}

// TestRun_BindMount writes a bind-mounted file through its source, and mounts another file over it.
func TestRun_BindMount(t *testing.T) {
	d, child := inChild(t, syscall.CLONE_NEWNS)
	if !child {
		return
	}
	d.check(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	d.write("source/resolv.conf", server(1))
	d.write("etc/resolv.conf", "")
	bind := func(from string) {
		t.Helper()
		d.check(syscall.Mount(d.path(from), d.path("etc/resolv.conf"), "", syscall.MS_BIND, ""))
	}
	bind("source/resolv.conf")

	w := watch(t, Config{Path: d.path("etc/resolv.conf")})
	w.until("mounted", serves(1))
	d.write("source/resolv.conf", server(2))
	w.until("written through the source", serves(2))
	d.write("etc/resolv.conf", server(3))
	w.until("written through the mount", serves(3))
	d.write("source/resolv.conf", server(4))
	w.until("written through the source again", serves(4))
	d.write("source/other", server(5))
	bind("source/other")
	w.until("covered by another mount", serves(5))
	d.check(syscall.Unmount(d.path("etc/resolv.conf"), 0))
	w.until("uncovered", serves(4))
	d.remove("source/resolv.conf")
	d.write("etc/resolv.conf", server(6))
	w.until("written after the source was removed", serves(6))
}

// TestRun_Permission removes the permission to read the file and adds it again.
func TestRun_Permission(t *testing.T) {
	d, child := inChild(t, 0)
	if !child {
		return
	}
	const uid = 65534
	d.write("etc/resolv.conf", server(1))
	for _, name := range []string{"", "etc", "etc/resolv.conf"} {
		d.check(os.Chown(d.path(name), uid, uid))
	}
	d.check(os.Chmod(filepath.Dir(d.dir), 0o755)) // also created for this test, and private
	d.check(syscall.Setgroups(nil))
	d.check(syscall.Setgid(uid))
	d.check(syscall.Setuid(uid))

	w := watch(t, Config{Path: d.path("etc/resolv.conf")})
	w.until("readable", serves(1))
	for n, name := range []string{"etc/resolv.conf", "etc"} {
		d.check(os.Chmod(d.path(name), 0))
		w.until(name+" not readable", keeps(1+n, "permission denied"))
		if s := w.Reread(); !keeps(1+n, "permission denied")(s) {
			t.Errorf("Reread: got %+v", s)
		}
		d.check(os.Chmod(d.path(name), 0o755))
		w.until(name+" readable", serves(1+n))
		d.write("etc/resolv.conf", server(2+n))
		w.until(name+" written", serves(2+n))
	}
}

// TestRun_NamedPipe replaces the file by a named pipe, whose open would wait for a writer.
func TestRun_NamedPipe(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(1))
	w := watch(t, Config{Path: d.path("resolv.conf")})
	for n := range 20 { // sometimes between a stat and an open
		d.check(syscall.Mkfifo(d.path("pipe"), 0o644))
		d.rename("pipe", "resolv.conf")
		w.until("pipe", func(s Snapshot) bool { return strings.Contains(errorText(s.Problem.Err), "is a named pipe") })
		d.replace("resolv.conf", server(n))
		w.until("file", serves(n))
	}
}
