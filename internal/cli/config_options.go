// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Options are the values of the flags of the command config check.
type CheckOptions struct {
	Format  string         // text or json
	NoFiles bool           // check the fields only
	Input   manifest.Input // manifests whose pods the node rules may change; no paths: none
}

// Register adds the flags.
func (o *CheckOptions) Register(flags *pflag.FlagSet) {
	o.Input.RegisterPaths(flags)
	o.Input.Namespace = "default"
	usage.FormatFlag(flags, &o.Format,
		"`FORMAT`: text or json (JSON Lines, one for each finding, then one for each changed pod)", "text", "json")
	flags.BoolVar(&o.NoFiles, "no-files", false,
		"check only the fields of FILE: do not read the files that it names, and accept missing fields")
}

// Run checks the configuration file at path, "-" for standard input, or each one in the data of a
// ConfigMap. It writes the findings, and what node rules change for the pods of the manifests.
// passed is false if it has written a finding of severity error.
func (o *CheckOptions) Run(ctx context.Context, path string, stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
	if path == "-" && slices.Contains(o.Input.Paths, "-") {
		return false, usage.Errorf("FILE and -f are both standard input: name a file for one of them")
	}
	entries, others, err := read(ctx, path, stdin)
	if path == "-" {
		path = stdinName
	}
	if err != nil {
		return o.writeProblem(path, err, stdout)
	}
	for _, key := range others {
		WriteError(stderr, fmt.Errorf("%s: data: %s is not a configuration file: not checked", path, key))
	}
	passed = true
	var errs []error
	for _, e := range entries {
		ok, err := o.check(e, stdout, stderr)
		passed = passed && ok
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || len(o.Input.Paths) == 0 {
		return passed, err
	}
	rules := withNodeRules(entries)
	for _, e := range rules[1:] {
		WriteError(stderr, fmt.Errorf("%s: its node rules are not shown, because those of %s are: write it into a file to check it",
			e.name(), rules[0].name()))
	}
	return passed, o.writeChanges(ctx, rules[0], stdin, stdout, stderr)
}

// withNodeRules returns the files that can have node rules. If there is none, it returns the first one,
// whose error is reported.
func withNodeRules(entries []entry) []entry {
	var rules []entry
	for _, e := range entries {
		if kind, err := e.Kind(); err == nil && (kind == v1alpha1.KindShim || kind == v1alpha1.KindAgent) {
			rules = append(rules, e)
		}
	}
	if rules == nil {
		return entries[:1]
	}
	return rules
}

// check writes the findings about a file. In JSON these include its errors; as text, a file
// without errors has a line, too. The paths in a ConfigMap are those of a container.
func (o *CheckOptions) check(e entry, stdout, stderr io.Writer) (passed bool, err error) {
	fieldsOnly, remark := o.NoFiles || e.key != "", ""
	if fieldsOnly {
		remark = " in its fields; files that it names were not read"
	}
	found, problem := checkFile(e.File, fieldsOnly)
	if o.Format == "json" {
		found, problem = append(found, errorFindings(e.Path, problem)...), nil
	}
	if err := WriteFileFindings(stdout, o.Format, e.Path, found); err != nil {
		return false, err
	}
	passed = !slices.ContainsFunc(found, func(f v1alpha1.Finding) bool { return f.Severity == string(policy.SeverityError) })
	if passed && problem == nil && o.Format != "json" {
		kind, _ := e.Kind() // checkFile has read it
		WriteError(stderr, fmt.Errorf("%s: %s: no errors%s", e.name(), kind, remark))
	}
	return passed, problem
}

// writeProblem returns the error of reading path, which in JSON is a finding.
func (o *CheckOptions) writeProblem(path string, problem error, stdout io.Writer) (passed bool, err error) {
	if o.Format != "json" {
		return false, problem
	}
	return false, WriteFileFindings(stdout, o.Format, path, errorFindings(path, problem))
}

// writeChanges writes what the node rules of a file change for the pods of the manifests.
func (o *CheckOptions) writeChanges(ctx context.Context, e entry, stdin io.Reader, stdout, stderr io.Writer) error {
	rules, err := loadRules(e.File, e.key != "")
	if err != nil {
		return err
	}
	if e.key != "" {
		WriteError(stderr, fmt.Errorf("%s: node rules are shown for a node without a resolv.conf, with the cluster DNS %v and "+
			"the cluster domain %q", e.name(), rules.Node.ClusterDNS, rules.Node.ClusterDomain))
	}
	m, readErr := o.Input.ReadPods(ctx, stdin)
	WriteNotes(stderr, m)
	out := RuleChanges{Stdout: stdout, JSON: o.Format == "json"}
	for _, w := range m.Workloads {
		w = w.OnNode(o.Input.Namespace, rules.Node.Name)
		before, after := rules.without.Decide(w.PolicyPod(), rules.host), rules.with.Decide(w.PolicyPod(), rules.host)
		if err := out.Write(w, &before, &after); err != nil {
			return err
		}
	}
	return errors.Join(readErr, out.Close())
}
