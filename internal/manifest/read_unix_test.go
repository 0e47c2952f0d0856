// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
)

// TestRead_Interrupted: a command that waits for a terminal, or for the writer of a FIFO, ends with
// its context.
func TestRead_Interrupted(t *testing.T) {
	terminal, typing := io.Pipe()
	defer typing.Close()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	for path, name := range map[string]string{"-": "stdin", fifo: fifo} {
		_, err := manifest.Input{Paths: []string{path}}.Read(ctx, terminal)
		if want := name + ": interrupt signal received"; fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
