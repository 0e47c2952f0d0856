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
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// CheckOptions are the values of the flags of the command config check.
type CheckOptions struct {
	Format  string // text or json
	NoFiles bool   // check the fields only
}

// Register adds the flags.
func (o *CheckOptions) Register(flags *pflag.FlagSet) {
	usage.FormatFlag(flags, &o.Format, "`FORMAT`: text or json (JSON Lines, one for each finding)", "text", "json")
	flags.BoolVar(&o.NoFiles, "no-files", false,
		"check only the fields of FILE: do not read the files that it names, and accept missing fields")
}

// Run checks the configuration file at path, "-" for standard input, or each one in the data of a
// ConfigMap, and writes the findings. passed is false if it has written a finding of severity error.
func (o *CheckOptions) Run(ctx context.Context, path string, stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
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
	return passed, errors.Join(errs...)
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
