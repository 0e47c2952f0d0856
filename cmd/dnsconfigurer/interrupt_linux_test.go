// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterrupt_NamedPipe interrupts commands that wait for a program that writes to a named pipe.
func TestInterrupt_NamedPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../examples")
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	for _, command := range []string{
		"config check PIPE",
		"render clusterfirst.yaml --resolv-conf PIPE",
		"validate clusterfirst.yaml --config PIPE",
		"lookup --kubeconfig PIPE --pod shop/web payments",
		"doctor --kubeconfig PIPE",
		"dns --config PIPE",
		"agent --config PIPE",
		"shim --config PIPE",
	} {
		t.Run(command, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := strings.Fields(strings.ReplaceAll(command, "PIPE", pipe))
			code := run(ctx, args, nil, &stdout, &stderr)
			if want := "dnsconfigurer: ended before completion: interrupt signal received\n"; code != exitFailed ||
				!strings.HasSuffix(stderr.String(), want) {
				t.Errorf("exit code %d, %s, want %s", code, stderr.String(), want)
			}
		})
	}
}

// TestPipe reads files that another program writes, as with <(...) of a shell.
func TestPipe(t *testing.T) {
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
  clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`
	for _, tt := range []struct{ command, text, want string }{
		{"config check PIPE --no-files", "{apiVersion: dnsconfigurer.dev/v1alpha1, kind: DNSConfiguration}", "no errors"},
		{"render ../../examples/clusterfirst.yaml --resolv-conf PIPE", "search corp.example\n", "cluster.local corp.example"},
		{"doctor --kubeconfig PIPE", kubeconfig, "127.0.0.1:1: connect: connection refused"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			path := writePipe(t, tt.text)
			var output bytes.Buffer
			run(t.Context(), strings.Fields(strings.ReplaceAll(tt.command, "PIPE", path)), nil, &output, &output)
			if !strings.Contains(output.String(), tt.want) {
				t.Errorf("%s, want %s", output.String(), tt.want)
			}
		})
	}
}

// writePipe returns the path of a pipe with a text.
func writePipe(t *testing.T, text string) (path string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/dev/fd/%d", r.Fd())
}
