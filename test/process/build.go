// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds dnsconfigurer as `make build` does, into dir, and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "dnsconfigurer")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program,
		"github.com/dnsconfigurer/dnsconfigurer/cmd/dnsconfigurer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
