// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package webhook_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
)

// TestKeyPair_Files: a handshake waits for no FIFO, and a certificate has a size.
func TestKeyPair_Files(t *testing.T) {
	dir := t.TempDir()
	fifo, empty, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(empty, nil, 0o600), os.WriteFile(large, make([]byte, 1<<20+1), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ cert, key, want string }{
		{fifo, empty, "fifo: not a regular file"},
		{empty, fifo, "fifo: not a regular file"},
		{"/dev/zero", empty, "zero: not a regular file"},
		{large, empty, "large: larger than 1048576 bytes"},
		{empty, empty, "failed to find any PEM data"},
		{filepath.Join(dir, "missing"), empty, "no such file"},
	} {
		want := "reading " + tt.cert + " and " + tt.key + ": "
		_, err := webhook.NewKeyPair(tt.cert, tt.key, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s %s", err, want, tt.want)
		}
	}
}
