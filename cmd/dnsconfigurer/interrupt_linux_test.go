// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestInterrupt_NamedPipe interrupts commands that wait for a program that writes to a named pipe.
func TestInterrupt_NamedPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Succeed(t, syscall.Mkfifo(pipe, 0o600))
	t.Chdir("../../examples")
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupt signal received"))
	for _, command := range []string{
		"config check PIPE",
		"validate PIPE",
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
	must.Get(w.WriteString(text))(t)
	must.Succeed(t, w.Close())
	return fmt.Sprintf("/dev/fd/%d", r.Fd())
}

// TestDemo runs the tour of examples/demo.sh: it fits a terminal of 80 columns, each of its commands
// runs, and autopath gives the result of the search list.
func TestDemo(t *testing.T) {
	self, err := os.Executable() // main, by the name of the link: see TestMain
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "dnsconfigurer")
	must.Succeed(t, os.Symlink(self, program))
	demo := exec.CommandContext(t.Context(), "bash", "../../examples/demo.sh")
	demo.Env = append(os.Environ(), "DNSCONFIGURER="+program, "DEMO_UPSTREAM="+freeAddr(t), "DEMO_CACHE="+freeAddr(t))
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		if n := utf8.RuneCount(bytes.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	text := string(out)
	for _, unwanted := range []string{"(exit code 2)", "(exit code 127)", "no such file", "No such file", "unknown: "} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q in the output\n%s", unwanted, text)
		}
	}
	if !strings.Contains(text, "\n# they agree\n") || !strings.HasSuffix(text, ": no errors\n") {
		t.Errorf("no agreement, or the end is missing\n%s", text)
	}
}

// TestValidate_LargeList: the 5,000 pods of a cluster, 18 MB as `kubectl get pods -A -o yaml` prints them, are read one by
// one. The peak was 170 MB, and 685 MB when the list was read as a whole.
func TestValidate_LargeList(t *testing.T) {
	const limit = 200 << 10 // KiB
	dir := t.TempDir()
	program := process.Build(t)
	var list strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range 5000 {
		fmt.Fprintf(&list, "- apiVersion: v1\n  kind: Pod\n  metadata: {name: web-%d, namespace: shop}\n  spec:\n"+
			"    dnsPolicy: ClusterFirst\n    containers:\n    - name: web\n      image: web\n      env:\n", i)
		for k := range 45 {
			fmt.Fprintf(&list, "      - name: VARIABLE_%d\n        value: value %d of a pod with a long environment\n", k, k)
		}
	}
	list.WriteString("- apiVersion: v1\n  kind: Pod\n  metadata: {name: last}\n  spec: {dnsPolicy: Custom}\n")
	file, log := filepath.Join(dir, "pods.yaml"), filepath.Join(dir, "log")
	must.Succeed(t, os.WriteFile(file, []byte(list.String()), 0o600))
	p := &process.Process{Program: program, LogFile: log, Args: []string{"validate", "-f", file}}
	must.Succeed(t, p.Start())
	peak := 0
	for size, err := p.Memory("VmHWM"); err == nil && size > 0; size, err = p.Memory("VmHWM") {
		peak = size
		time.Sleep(10 * time.Millisecond)
	}
	p.Kill()
	out, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(out), "error: Pod default/last: items[5000].spec.dnsPolicy: ") ||
		!strings.Contains(string(out), "5001 objects checked, 1 error, ") {
		t.Errorf("%d bytes: %v\n%s", list.Len(), err, out)
	}
	if t.Logf("peak of the memory: %d KiB", peak); peak == 0 || peak > limit {
		t.Errorf("limit %d KiB", limit)
	}
}
