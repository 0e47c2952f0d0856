// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	writeSharedFlags(&b)
	for _, c := range rootCommand(nil).Commands() {
		writeCommand(&b, c)
	}
	if *update {
		must.Succeed(t, os.WriteFile(commandPage, []byte(b.String()), 0o644))
	}
	page := must.Get(os.ReadFile(commandPage))(t)
	if diff := gocmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/commands.md is out of date, run this test with -update (-page +generated):\n%s", diff)
	}
}

// writeCommand writes the sections of c and of its subcommands.
func writeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	name := strings.TrimPrefix(c.CommandPath(), "dnsconfigurer ")
	fmt.Fprintf(b, "\n## %s\n\n%s\n", name, strings.TrimSpace(cmp.Or(c.Long, c.Short+".")))
	if c.Runnable() {
		fmt.Fprintf(b, "\n    %s\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n")
		for line := range strings.Lines(strings.Trim(c.Example, "\n")) {
			fmt.Fprintf(b, "    %s\n", strings.TrimSpace(line))
		}
	}
	writeFlags(b, c)
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}

// sharedFlags are the tables of flags that several commands have with the same default and meaning.
var sharedFlags = []struct {
	heading, text string
	command       func() *cobra.Command // has all flags
	flags         []string
	some          bool // other commands may have some of the flags
}{
	{"Manifests and node facts", "`render`, `validate` and `lookup` read manifests. A later source of a node fact\n" +
		"overrides an earlier one: the defaults, `--kubelet-config`, the fields below `node` in `--config`, the other flags.",
		renderCommand,
		[]string{"cluster-dns", "cluster-domain", "config", "filename", "kubelet-config", "namespace", "node-name", "recursive"}, false},
	{"Cluster access", "`advise`, `conformance`, `doctor` and `lookup` read the objects of a cluster.",
		adviseCommand, []string{"context", "kubeconfig"}, false},
	{"Paths on the node", "`status` has all of these flags. Other commands for a node have the flags that they need.",
		statusCommand, []string{"kubelet-unit", "root", "socket"}, true},
}

func writeSharedFlags(b *strings.Builder) {
	for _, table := range sharedFlags {
		fmt.Fprintf(b, "\n## %s\n\n%s\n%s", table.heading, table.text, tableHead)
		for _, name := range table.flags {
			b.WriteString(flagRow(table.command().Flags().Lookup(name)))
		}
	}
}

const tableHead = "\n| flag | meaning |\n|---|---|\n"

func writeFlags(b *strings.Builder, c *cobra.Command) {
	var links, shared []string
	for _, table := range sharedFlags {
		names := slices.DeleteFunc(slices.Clone(table.flags), func(name string) bool {
			f, want := c.Flags().Lookup(name), table.command().Flags().Lookup(name)
			return f == nil || f.Usage != want.Usage || f.DefValue != want.DefValue
		})
		all := len(names) == len(table.flags)
		if len(names) == 0 || !all && !table.some {
			continue
		}
		shared = append(shared, names...)
		heading := strings.ToLower(table.heading)
		link := fmt.Sprintf("[%s](#%s)", heading, strings.ReplaceAll(heading, " ", "-"))
		if all {
			links = append(links, "the flags of "+link)
		} else {
			links = append(links, "`--"+strings.Join(names, "` and `--")+"` of "+link)
		}
	}
	var rows []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(shared, f.Name) {
			rows = append(rows, flagRow(f))
		}
	})
	if len(links) > 0 {
		fmt.Fprintf(b, "\nIt has %s.\n", strings.Join(links, " and "))
	}
	if len(rows) > 0 {
		b.WriteString(tableHead + strings.Join(rows, ""))
	}
}

// flagRow returns the row of a flag, with its default as in the help.
func flagRow(f *pflag.Flag) string {
	value, meaning := pflag.UnquoteUsage(f)
	name := strings.TrimSuffix("--"+f.Name+" "+value, " ")
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
		meaning += " (default `" + f.DefValue + "`)"
	}
	return "| `" + escape.Replace(name) + "` | " + escape.Replace(meaning) + " |\n"
}

var escape = strings.NewReplacer("|", `\|`)

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
			if !ok || strings.Contains(example, "|") || strings.Contains(example, "--context") {
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

// TestIssueTemplates: the front matter of each template has what GitHub needs to offer it, and the
// commands and files that it names exist.
func TestIssueTemplates(t *testing.T) {
	paths := must.Get(filepath.Glob("../../.github/ISSUE_TEMPLATE/*"))(t)
	commands := 0
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		head, body, found := strings.Cut(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
		var front struct{ Name, About string }
		if err := yaml.UnmarshalStrict([]byte(head), &front); !found || err != nil || front.Name == "" || front.About == "" {
			t.Errorf("%s: front matter %+v, %v, want name and about", path, front, err)
		}
		if !strings.HasSuffix(path, ".md") || !strings.Contains(body, "\n**") {
			t.Errorf("%s: want Markdown with headings in bold", path)
		}
		for _, quoted := range regexp.MustCompile(`"(dnsconfigurer [^"]+)"`).FindAllStringSubmatch(body, -1) {
			commands += checkCommandLines(t, path, quoted[1])
		}
		for _, file := range regexp.MustCompile(`[\w./-]+\.md\b`).FindAllString(body, -1) {
			if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if len(paths) < 2 || commands < 3 {
		t.Errorf("%d templates, %d command lines", len(paths), commands)
	}
}
