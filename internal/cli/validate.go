// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// severities returns the values of Options.FailOn, the gravest first.
func severities() []string {
	return []string{string(policy.SeverityError), string(policy.SeverityWarning), string(policy.SeverityInfo)}
}

// Options are the values of the command's flags.
type ValidateOptions struct {
	Input  manifest.Input
	Output Validation
	FailOn string   // the lowest severity of a finding that fails: one of Severities
	Ignore []string // codes of findings that are left out

	AllowEmpty bool // an input without any object passes
}

// Register adds the flags.
func (o *ValidateOptions) Register(flags *pflag.FlagSet) {
	o.Input.Register(flags)
	usage.FormatFlag(flags, &o.Output.Format,
		"`FORMAT`: text, json (JSON Lines, one for each object), github (annotations for GitHub Actions) or sarif (2.1.0)",
		ValidateFormats...)
	usage.ChoiceFlag(flags, &o.FailOn, "fail-on", "",
		"lowest `SEVERITY` of a finding for exit code 1: error, warning or info", severities()...)
	flags.StringSliceVar(&o.Ignore, "ignore", nil,
		"`CODE` of findings to ignore; repeatable. The annotation "+admission.IgnoreAnnotation+" ignores them in one object")
	flags.BoolVar(&o.AllowEmpty, "allow-empty", false, "exit code 0 for an input without any object")
	flags.BoolVar(&o.Input.Strict, "strict", false,
		"report every unknown field as an error, not only those that resemble a DNS field")
}

// Check validates the options.
func (o *ValidateOptions) Check() error {
	if err := o.Input.Check(); err != nil {
		return err
	}
	for _, code := range o.Ignore {
		if err := admission.CheckCode(code); err != nil {
			return usage.Errorf("--ignore: %w", err)
		}
	}
	return nil
}

// Run checks the manifests with the rules of a node, and writes the findings, what was passed
// over, and a summary. passed is false if a finding fails, a document cannot be read, or the input
// has no object: a check of nothing is not a success. The error is about writing.
func (o *ValidateOptions) Run(ctx context.Context, rules *admission.Rules, node string,
	stdin io.Reader, stderr io.Writer) (passed bool, err error) {
	o.Output.Verbose = o.FailOn == string(policy.SeverityInfo)
	in, readErr := readInput(ctx, o.Input, stdin)
	WriteNotes(stderr, in.Manifest)
	if err := o.Input.CheckPods(in.Manifest); err != nil && readErr == nil && len(in.services) == 0 {
		WriteError(stderr, err)
	}
	isEmpty := len(in.Workloads)+len(in.services)+len(in.Others) == 0 && readErr == nil
	results, err := in.check(ctx, rules, o.Input.Namespace, node, o.Ignore)
	if err != nil {
		return false, err
	}
	groups := grouped(results)
	summary := summarize(groups)
	summary.Checked = len(results)
	if o.Output.Format != formatJSON { // there each object has a line
		results = groups
	}
	summary.Others, summary.Notes = in.Others, len(in.Notes)
	if err := o.write(results, readErr); err != nil {
		return false, err
	}
	if readErr != nil {
		WriteError(stderr, readErr)
		summary.Unreadable = len(excerpt.Unjoin(readErr))
	}
	summary.Write(stderr)
	return readErr == nil && (!isEmpty || o.AllowEmpty) && !fails(summary, o.FailOn), nil
}

// write writes the findings and the errors of documents that could not be read.
func (o *ValidateOptions) write(results []result, readErr error) error {
	for _, r := range results {
		if err := o.Output.Write(r.Subject, r.Findings); err != nil {
			return err
		}
	}
	return errors.Join(o.Output.WriteUnreadable(readErr), o.Output.Close())
}

// summarize counts the findings.
func summarize(results []result) Summary {
	s := Summary{Found: map[policy.Severity]int{}}
	for _, r := range results {
		for _, f := range r.Findings {
			s.Found[f.Severity] += 1 + f.More
		}
		s.Ignored += r.Ignored
	}
	return s
}

// fails reports whether there is a finding as grave as a severity.
func fails(s Summary, severity string) bool {
	grave := severities()[:slices.Index(severities(), severity)+1]
	return slices.ContainsFunc(grave, func(severity string) bool { return s.Found[policy.Severity(severity)] > 0 })
}
