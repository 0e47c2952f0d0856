// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestQueryLog_Pipe: a named pipe without a reader is an error, instead of a wait for one.
func TestQueryLog_Pipe(t *testing.T) {
	f := &logFile{path: filepath.Join(t.TempDir(), "queries")}
	defer f.close()
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("line\n")); !errors.Is(err, syscall.ENXIO) {
		t.Error(err)
	}
}
