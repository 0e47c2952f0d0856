// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package snapshot

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRead_FIFO: a server does not wait for the writer of a FIFO.
func TestRead_FIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
		t.Errorf("got %v", err)
	}
}
