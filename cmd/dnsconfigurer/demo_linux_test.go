// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestDemo runs the tour of examples/demo.sh: it fits a terminal of 80 columns, each of its commands
// runs, and autopath gives the result of the search list.
func TestDemo(t *testing.T) {
	self, err := os.Executable() // main, by the name of the link: see TestMain
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "dnsconfigurer")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
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
