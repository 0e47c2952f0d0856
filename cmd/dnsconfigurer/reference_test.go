// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const commandPage = "../../docs/commands.md"

const commandIntroduction = `# Command reference

This page lists every command except ` + "`help` and `completion`, with its flags, as\n`dnsconfigurer COMMAND --help`" + ` prints them.

It is generated: ` + "`go test ./cmd/dnsconfigurer -run TestReference -update`" + ` writes it from the
source code. [configuration.md](configuration.md) has the fields of the configuration files, and
[json.md](json.md) the JSON output. The exit codes are in [the README](../README.md#commands).
`

// TestReference checks that docs/commands.md is generated from the commands.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(commandIntroduction)
	for _, c := range rootCommand(nil).Commands() {
		writeCommand(&b, c)
	}
	if *update {
		if err := os.WriteFile(commandPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(commandPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/commands.md is out of date, run this test with -update (-page +generated):\n%s", diff)
	}
}

// writeCommand writes the sections of c and of its subcommands.
func writeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	name := strings.TrimPrefix(c.CommandPath(), "dnsconfigurer ")
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", name, strings.TrimSuffix(c.Short, "."))
	if c.Runnable() {
		fmt.Fprintf(b, "\n    %s\n", c.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n")
		for line := range strings.Lines(strings.Trim(c.Example, "\n")) {
			fmt.Fprintf(b, "    %s\n", strings.TrimSpace(line))
		}
	}
	writeFlags(b, c.Flags())
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("\n| flag | value | default | meaning |\n|---|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		value, meaning := pflag.UnquoteUsage(f)
		value = strings.ReplaceAll(value, "|", `\|`)
		shown := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			shown = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, value, shown, strings.ReplaceAll(meaning, "|", `\|`))
	})
}
