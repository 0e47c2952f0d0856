// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSnapshot_FIFO: a server does not wait for the writer of a FIFO.
func TestSnapshot_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSnapshot(path); err == nil || !strings.Contains(err.Error(), path+": not a regular file") {
		t.Errorf("got %v", err)
	}
}
