// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
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
		_, err := kube.Input{Paths: []string{path}}.Read(ctx, terminal)
		if want := name + ": interrupt signal received"; fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRead_UnreadableDirectory: the files of the other directories are read. The path of the one that
// cannot be read is longer than PATH_MAX, because root may read every directory.
func TestRead_UnreadableDirectory(t *testing.T) {
	write(t, map[string]string{"all/a/pod.yaml": fmt.Sprintf(pod, "a"), "all/c/pod.yaml": fmt.Sprintf(pod, "c")})
	start, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("b", 250)
	t.Chdir("all")
	for range 20 {
		if err := os.Mkdir(long, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(long)
	}
	t.Chdir(start)
	m, err := kube.Input{Paths: []string{"all"}, Recursive: true}.Read(t.Context(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "all/"+long) || !strings.HasSuffix(err.Error(), long+": file name too long") ||
		len(m.Workloads) != 2 {
		t.Errorf("%d workloads, %v", len(m.Workloads), err)
	}
}
