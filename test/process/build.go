// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module contains the other modules.
const module = "github.com/dnsconfigurer/dnsconfigurer"

// Build returns the path of dnsconfigurer, built as `make build` does. As all programs here it is in
// Go's build cache, so that the tests of all packages link it once.
func Build(t testing.TB) string {
	t.Helper()
	return BuildIn(t, ".", "-ldflags=-s -w", "./cmd/dnsconfigurer")
}

// BuildIn returns the path of a program. args are those of "go run" in a directory of the repository:
// "go tool" has no linker flags. "go run" prints the path of a temporary file when it has linked the
// program, and the path in the cache from then on.
func BuildIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	args = append([]string{"go", "run", "-trimpath", "-exec=echo"}, args...)
	path := Output(t, dir, nil, args...)
	if _, err := os.Stat(path); err != nil {
		path = Output(t, dir, nil, args...)
	}
	return path
}

// BuildTool returns the path of a program that a module of the repository has as a tool, built with
// the variables of env.
func BuildTool(t testing.TB, dir, program string, env ...string) string {
	t.Helper()
	return Output(t, dir, env, "go", "tool", "-n", program)
}

// Output returns the one line that a command prints in a directory of the repository.
func Output(t testing.TB, dir string, env []string, args ...string) string {
	t.Helper()
	start := time.Now()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("finding the repository: %v", err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), dir)
	cmd.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env) // the last value counts
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s: %s: %v\n%s", dir, cmd, err, &problems)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Logf("%s took %v", strings.Join(args, " "), took.Round(time.Second))
	}
	return strings.TrimSpace(string(out))
}
