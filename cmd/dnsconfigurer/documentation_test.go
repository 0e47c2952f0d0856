// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is a command in the documentation, and the output that is shown below it.
type example struct{ command, output string }

// examplesIn returns the commands of a page that need neither a network nor a pipe.
func examplesIn(page string) (list []example) {
	blocks := regexp.MustCompile(`(?m)^    \$ (?:bin/)?dnsconfigurer (.*)\n((?:    [^$\n].*\n)+)`).FindAllStringSubmatch(page, -1)
	for _, b := range blocks {
		if strings.ContainsAny(b[1], "|>") || strings.Contains(b[1], "--server") || strings.Contains(b[1], "--upstream") {
			continue
		}
		list = append(list, example{b[1], strings.TrimPrefix(strings.ReplaceAll(b[2], "\n    ", "\n"), "    ")})
	}
	return list
}

// TestDocumentation compares the output of the commands in the documentation with what
// the pages show. A line "..." stands for any number of lines.
func TestDocumentation(t *testing.T) {
	t.Chdir("../..")
	for page, want := range map[string]int{"README.md": 3, "docs/lookup.md": 3} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		examples := examplesIn(string(text))
		if len(examples) != want {
			t.Errorf("%s has %d examples, want %d", page, len(examples), want)
		}
		for _, e := range examples {
			var stdout, stderr bytes.Buffer
			run(t.Context(), strings.Fields(e.command), nil, &stdout, &stderr)
			got, shown := splitLines(stdout.String()), splitLines(e.output)
			if !matchLines(shown, got) {
				t.Errorf("%s: dnsconfigurer %s (-page +output):\n%s%s", page, e.command, cmp.Diff(shown, got), stderr.String())
			}
		}
	}
}

// splitLines returns the lines of an output without what differs between runs.
func splitLines(output string) (lines []string) {
	for line := range strings.Lines(withoutTimes(output)) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lines
}

func matchLines(shown, got []string) bool {
	n := slices.Index(shown, "...")
	if n < 0 {
		return slices.Equal(shown, got)
	}
	if len(got) < n || !slices.Equal(shown[:n], got[:n]) {
		return false
	}
	for skipped := n; skipped <= len(got); skipped++ {
		if matchLines(shown[n+1:], got[skipped:]) {
			return true
		}
	}
	return false
}

func TestMatchLines(t *testing.T) {
	tests := []struct {
		shown, got string
		want       bool
	}{
		{"a b", "a b", true},
		{"a b", "a", false},
		{"a", "a b", false},
		{"a ... c", "a b b c", true},
		{"a ... c", "a c", true},
		{"a ... c", "a b", false},
		{"a ...", "a b", true},
		{"... c", "b", false},
	}
	for _, tt := range tests {
		if got := matchLines(strings.Fields(tt.shown), strings.Fields(tt.got)); got != tt.want {
			t.Errorf("%q, %q: %v, want %v", tt.shown, tt.got, got, tt.want)
		}
	}
}
