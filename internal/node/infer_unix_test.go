// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReadHosts_FIFO: the agent does not wait for the writer of a FIFO.
func TestReadHosts_FIFO(t *testing.T) {
	dir := t.TempDir()
	fifo, file, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if hosts := readHosts([]string{fifo, filepath.Join(dir, "missing"), link}); len(hosts) != 1 || hosts[0].Path != link {
		t.Errorf("%+v", hosts)
	}
}
