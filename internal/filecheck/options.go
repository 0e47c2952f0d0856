// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package filecheck

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Options are the values of the flags of the command config check.
type Options struct {
	Format  string         // text or json
	NoFiles bool           // check with Fields instead of File
	Input   manifest.Input // manifests whose pods the node rules may change; no paths: none
}

// Run checks the configuration file at path. It writes the findings, and what node rules change
// for the pods of the manifests. passed is false if it has written a finding of severity error.
func (o *Options) Run(path string, stdin io.Reader, stdout, stderr io.Writer) (passed bool, err error) {
	if passed, err = o.checkFile(path, stdout); err != nil || len(o.Input.Paths) == 0 {
		return passed, err
	}
	return passed, o.writeChanges(path, stdin, stdout, stderr)
}

// checkFile writes the findings about a file. In JSON these include its errors.
func (o *Options) checkFile(path string, stdout io.Writer) (passed bool, err error) {
	check := File
	if o.NoFiles {
		check = Fields
	}
	found, problem := check(path)
	if o.Format == "json" {
		found, problem = append(found, ErrorFindings(path, problem)...), nil
	}
	if err := output.WriteFileFindings(stdout, o.Format, path, found); err != nil {
		return false, fmt.Errorf("writing the result: %w", err)
	}
	return !slices.ContainsFunc(found, isError), problem
}

func isError(f v1alpha1.Finding) bool { return f.Severity == string(policy.SeverityError) }

// writeChanges writes what the node rules of the file at path change for the pods of the
// manifests.
func (o *Options) writeChanges(path string, stdin io.Reader, stdout, stderr io.Writer) error {
	rules, err := LoadRules(path)
	if err != nil {
		return err
	}
	m, readErr := o.Input.ReadPods(stdin)
	output.WriteNotes(stderr, m)
	out := output.RuleChanges{Stdout: stdout, JSON: o.Format == "json"}
	for _, w := range m.Workloads {
		w = w.OnNode(o.Input.Namespace, rules.Node.Name)
		before, after := rules.Decide(w.PolicyPod())
		if err := out.Write(w, &before, &after); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return errors.Join(readErr, out.Close())
}
