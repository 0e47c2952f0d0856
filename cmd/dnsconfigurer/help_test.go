// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelp_Width checks that no line of any help is wider than a terminal of 100 columns.
func TestHelp_Width(t *testing.T) {
	checkHelpWidth(t, rootCommand(nil))
}

func checkHelpWidth(t *testing.T, c *cobra.Command) {
	t.Helper()
	var help bytes.Buffer
	run(t.Context(), append(strings.Fields(c.CommandPath())[1:], "--help"), nil, &help, &help)
	for line := range strings.Lines(help.String()) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 100 {
			t.Errorf("%s --help: %d columns: %s", c.CommandPath(), width, line)
		}
	}
	for _, sub := range c.Commands() {
		checkHelpWidth(t, sub)
	}
}

// TestHelp_ExamplesWork runs the examples that use the files of the repository. An example
// may find errors in its files (exit code 1), but must write a result. One that needs a cluster, as
// one with a pipe does, is not run.
func TestHelp_ExamplesWork(t *testing.T) {
	t.Chdir("../..")
	for _, command := range []string{"render", "validate", "lookup"} {
		var help bytes.Buffer
		run(t.Context(), []string{command, "--help"}, nil, &help, &help)
		_, examples, _ := strings.Cut(help.String(), "Examples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		examples = strings.ReplaceAll(examples, "\\\n", "") // one line for each command
		tested := 0
		for example := range strings.Lines(examples) {
			args, ok := strings.CutPrefix(strings.TrimSpace(example), "dnsconfigurer ")
			if !ok || strings.Contains(example, "|") || strings.Contains(example, "--kubeconfig") {
				continue
			}
			tested++
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(args), nil, &stdout, &stderr); code == exitUsage ||
				stdout.Len() == 0 && command != "validate" {
				t.Errorf("%s: exit code %d\n%s", args, code, stderr.String())
			}
		}
		if tested == 0 {
			t.Errorf("%s has no example that can be tested:\n%s", command, examples)
		}
	}
}
