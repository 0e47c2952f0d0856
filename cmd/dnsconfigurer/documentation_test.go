// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/pages"
)

// blocks returns the code blocks of the documentation, except those of generated pages.
func blocks(t *testing.T) []pages.Block {
	t.Helper()
	all := must.Get(pages.Read("../.."))(t)
	return slices.DeleteFunc(all, func(b pages.Block) bool { return b.Page == "docs/commands.md" })
}

// TestDocumentation runs the commands in the documentation, or checks that a comment says where
// else they run, or why they do not. Of the latter it checks the command line.
func TestDocumentation(t *testing.T) {
	dir := newSandbox(t)
	ran := 0
	suites := map[string]int{}
	exceptions := map[string]int{}
	for _, b := range blocks(t) {
		command, output := b.Example()
		place := fmt.Sprintf("%s:%d", b.Page, b.Line)
		reason, isException := strings.CutPrefix(b.Note, "not run: ")
		suite, hasSuite := strings.CutPrefix(b.Note, "run by ")
		switch {
		case !b.IsCommands() && command == "":
			if isException || hasSuite {
				t.Errorf("%s: the comment %q is about no command", place, b.Note)
			}
		case hasSuite:
			suites[suite]++
		case isException:
			exceptions[reason]++
			checkCommandLines(t, place, b.Text)
		case b.Note != "":
			t.Errorf("%s: %q is neither \"run by SUITE\" nor \"not run: REASON\"", place, b.Note)
		case command != "":
			ran++
			testExample(t, place, dir, command, output)
		default:
			ran++
			runCommands(t, place, dir, b.Text)
		}
	}
	t.Logf("blocks of commands: %d run", ran)
	for _, suite := range slices.Sorted(maps.Keys(suites)) {
		t.Logf("%d run by %s", suites[suite], suite)
	}
	for _, reason := range slices.Sorted(maps.Keys(exceptions)) {
		t.Logf("%d not run: %s", exceptions[reason], reason)
	}
	if ran < 10 || len(suites) == 0 {
		t.Errorf("%d blocks run here, and %v elsewhere", ran, suites)
	}
}

// TestDocumentation_Reference checks the command lines of the generated page.
func TestDocumentation_Reference(t *testing.T) {
	all := must.Get(pages.Read("../.."))(t)
	checked := 0
	for _, b := range all {
		if b.Page == "docs/commands.md" {
			checked += checkCommandLines(t, fmt.Sprintf("%s:%d", b.Page, b.Line), b.Text)
		}
	}
	if checked < 50 {
		t.Errorf("%d command lines checked", checked)
	}
}

// sandboxShim is the configuration of a shim with a rule, for the node of the examples.
const sandboxShim = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: ShimConfiguration
node: {kubeletConfig: examples/node/kubelet.yaml, nodeName: worker-1, rules: [{options: ["ndots:2"]}]}
`

// newSandbox returns a directory in which commands of the documentation run: the examples are
// there, and manifests in the directory deploy. The kubectl and the helm in its directory bin print
// the examples instead of objects of a cluster or of a chart.
func newSandbox(t *testing.T) string {
	t.Helper()
	self, err1 := os.Executable() // main, by the name of the link: see TestMain
	examples, err2 := filepath.Abs("../../examples")
	dir := t.TempDir()
	const print = "#!/bin/sh\nfor file in examples/*.yaml; do cat $file; echo ---; done\n"
	must.Succeed(t, errors.Join(err1, err2,
		os.Mkdir(filepath.Join(dir, "bin"), 0o700),
		os.Symlink(self, filepath.Join(dir, "bin", "dnsconfigurer")),
		os.WriteFile(filepath.Join(dir, "bin", "kubectl"), []byte(print), 0o700),
		os.WriteFile(filepath.Join(dir, "bin", "helm"), []byte(print), 0o700),
		os.Symlink(examples, filepath.Join(dir, "examples")),
		os.Symlink(examples, filepath.Join(dir, "deploy")),
		os.WriteFile(filepath.Join(dir, "shim.yaml"), []byte(sandboxShim), 0o600),
	))
	return dir
}

// nodeFiles are files of a node, and those of the examples instead.
var nodeFiles = strings.NewReplacer("/var/lib/kubelet/config.yaml", "examples/node/kubelet.yaml",
	"/etc/dnsconfigurer/shim.yaml", "examples/node/shim.yaml")

// shell runs commands in a sandbox. Each takes less than a second: the limit is for one that should
// not be run, such as a server.
func shell(t *testing.T, dir, commands string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-ec", nodeFiles.Replace(commands))
	cmd.Dir, cmd.WaitDelay = dir, time.Minute
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// runCommands runs a block. Exit code 1 is that of a command whose input has errors, for which it
// has printed them.
func runCommands(t *testing.T, place, dir, commands string) {
	t.Helper()
	stdout, stderr, err := shell(t, dir, commands)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitFailed &&
		strings.Contains(commands, "examples/") && stdout != "" {
		err = nil
	}
	if err != nil {
		t.Errorf("%s: %v\n%s\n%s%s", place, err, commands, stdout, stderr)
	}
}

// testExample compares the output of a command with what the page shows. A line "..." stands for any
// number of lines.
func testExample(t *testing.T, place, dir, command, output string) {
	t.Helper()
	stdout, stderr, _ := shell(t, dir, command) // some show errors
	got, shown := splitLines(stdout), splitLines(output)
	if !matchLines(shown, got) {
		t.Errorf("%s: %s (-page +output):\n%s%s", place, command, cmp.Diff(shown, got), stderr)
	}
}

// checkCommandLines checks the flags of each dnsconfigurer in a block without running it, and
// returns their number. Values such as FILE|DIR need not exist.
func checkCommandLines(t *testing.T, place, text string) (checked int) {
	t.Helper()
	text = strings.ReplaceAll(text, "\\\n", " ")
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("|&;\n", r) }) {
		part, _, _ = strings.Cut(part, " #")
		part, _, _ = strings.Cut(part, " >")
		words := strings.Fields(strings.NewReplacer("[", "", "]", "", "'", "", `"`, "").Replace(part))
		if len(words) == 0 || filepath.Base(words[0]) != "dnsconfigurer" {
			continue
		}
		checked++
		var stderr bytes.Buffer
		args := slices.DeleteFunc(words[1:], func(word string) bool { return word == "flags" })
		if run(t.Context(), append(args, "--help"), nil, io.Discard, &stderr) != exitOK {
			t.Errorf("%s: %s\n%s", place, strings.TrimSpace(part), &stderr)
		}
		// With --help, cobra prints the help of the parent of an unknown command.
		if c, rest, err := rootCommand(nil).Find(args); err != nil || c.HasSubCommands() && hasCommand(rest) {
			t.Errorf("%s: %s: unknown command %q, %v", place, strings.TrimSpace(part), rest, err)
		}
	}
	return checked
}

// hasCommand reports whether the words after a command begin with another one.
func hasCommand(words []string) bool { return len(words) > 0 && !strings.HasPrefix(words[0], "-") }

// splitLines returns the lines of an output without what differs between runs.
func splitLines(output string) (lines []string) {
	for line := range strings.Lines(withoutTimes(output)) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lines
}

// matchLines reports whether the lines are those that a page shows.
func matchLines(shown, got []string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(shown, "\n")+"\n"), "\\.\\.\\.\n", "(.*\n)*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.Join(got, "\n") + "\n")
}

// asConfiguration returns the configuration files that a YAML text can be. A text without a kind
// can be a part of each kind that has all of its fields.
func asConfiguration(t *testing.T, text string) (files []string) {
	t.Helper()
	var fields map[string]any
	if yaml.Unmarshal([]byte(text), &fields) != nil || len(fields) == 0 {
		return nil
	}
	if kind, found := fields["kind"].(string); found {
		if kind == "KubeletConfiguration" || slices.Contains(v1alpha1.Kinds(), kind) {
			files = append(files, text)
		}
		return files
	}
	for _, kind := range v1alpha1.Kinds() {
		defaults := must.Get(v1alpha1.Defaults(kind))(t)
		known := true
		for field := range fields {
			known = known && (bytes.Contains(defaults, []byte("\n"+field+":")) || bytes.Contains(defaults, []byte("\n# "+field+":")))
		}
		if known {
			files = append(files, "apiVersion: "+v1alpha1.GroupVersion+"\nkind: "+kind+"\n"+text)
		}
	}
	return files
}

// checkConfigurations checks the configuration that text can be, and reports whether it is one.
func checkConfigurations(t *testing.T, name, text string) bool {
	t.Helper()
	files := asConfiguration(t, text)
	var stderr bytes.Buffer
	for _, file := range files {
		path := filepath.Join(t.TempDir(), "config.yaml")
		must.Succeed(t, os.WriteFile(path, []byte(file), 0o600))
		if run(t.Context(), []string{"config", "check", "--no-files", path}, nil, &stderr, &stderr) == exitOK {
			return true
		}
	}
	if len(files) > 0 {
		t.Errorf("%s: %s\n%s", name, &stderr, text)
	}
	return len(files) > 0
}

// TestDocumentation_Configurations checks the configuration files in the examples and on the
// pages of the documentation, also those that are shown in part.
func TestDocumentation_Configurations(t *testing.T) {
	t.Chdir("../..")
	examples, shown := 0, 0
	for _, dir := range []string{"examples", "docs", "deploy/systemd"} {
		must.Succeed(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("Configuration\n")) && checkConfigurations(t, path, string(text)) {
				examples++
			}
			return err
		}))
	}
	all := must.Get(pages.Read("."))(t)
	for _, b := range all {
		if checkConfigurations(t, fmt.Sprintf("%s:%d", b.Page, b.Line), b.Text) {
			shown++
		}
	}
	if examples < 3 || shown < 1 {
		t.Errorf("%d examples and %d blocks of pages checked", examples, shown)
	}
}
