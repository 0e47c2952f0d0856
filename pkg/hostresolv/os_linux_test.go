// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestRun_NamedPipe replaces the file by a named pipe, whose open would wait for a writer.
func TestRun_NamedPipe(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(1))
	w := watch(t, Config{Path: d.path("resolv.conf")})
	for n := range 20 { // sometimes between a stat and an open
		d.check(syscall.Mkfifo(d.path("pipe"), 0o644))
		d.rename("pipe", "resolv.conf")
		w.until("pipe", func(s Snapshot) bool { return strings.Contains(errorText(s.Problem), "is a named pipe") })
		d.replace("resolv.conf", server(n))
		w.until("file", serves(n))
	}
}

// TestReadFile_Closes: a read leaves no file open, which would keep the file system of a mount busy.
func TestReadFile_Closes(t *testing.T) {
	d := newTree(t)
	d.write("resolv.conf", server(1))
	open := func() int {
		files, err := os.ReadDir("/proc/self/fd")
		d.check(err)
		return len(files)
	}
	before := open()
	for range 10 {
		readFile(d.path("resolv.conf"))
	}
	if after := open(); after != before {
		t.Errorf("%d files are open, before %d", after, before)
	}
}
