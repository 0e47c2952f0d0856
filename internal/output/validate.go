// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ValidateFormats are the formats of a Validation.
var ValidateFormats = []string{"text", "json", "github"}

// Validation writes the findings about objects.
type Validation struct {
	Stdout io.Writer
	Format string // one of ValidateFormats
}

// Write writes the findings about w.
func (v Validation) Write(w kube.Workload, findings []policy.Finding) error {
	if v.Format == "json" {
		return json.NewEncoder(v.Stdout).Encode(v1alpha1.ValidateResult{
			File: w.File, Document: w.Document, Source: w.Source,
			Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name, Findings: Findings(findings),
		})
	}
	for _, f := range findings {
		at := w.Location
		at.Field = f.Field
		var err error
		if v.Format == "github" {
			at.Line = w.LineOf(f.Field)
			err = v.annotate(f.Severity, at, string(f.Code), fmt.Sprintf("%s: %s\nhint: %s", f.Field, f.Message, hint(f)))
		} else {
			_, err = fmt.Fprintf(v.Stdout, "%s: %s: %s (%s)\nhint: %s\n", place(at), f.Severity, f.Message, f.Code, hint(f))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteError writes an annotation for each error that err joins, in the format github
// only. In all formats the caller writes errors to standard error.
func (v Validation) WriteError(err error) error {
	if v.Format != "github" {
		return nil
	}
	for _, e := range multierr.Unjoin(err) {
		input, ok := errors.AsType[*kube.InputError](e)
		if !ok {
			input = &kube.InputError{Err: e}
		}
		text := input.Err.Error()
		if input.Field != "" {
			text = input.Field + ": " + text
		}
		if input.Hint != "" {
			text += "\nhint: " + input.Hint
		}
		if err := v.annotate(policy.SeverityError, input.Location, "unreadable", text); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}

// place returns a location, with the template that it comes from in brackets.
func place(at kube.Location) string {
	if at.Source == "" {
		return at.String()
	}
	return at.String() + " [" + at.Source + "]"
}

// annotate writes a workflow command of GitHub Actions
// (docs.github.com/actions/reference/workflow-commands-for-github-actions). The line is
// left out for the output of a template, because the template's lines are others.
func (v Validation) annotate(severity policy.Severity, at kube.Location, title, text string) error {
	level := map[policy.Severity]string{policy.SeverityError: "error", policy.SeverityWarning: "warning", policy.SeverityInfo: "notice"}[severity]
	var properties []string
	add := func(name, value string) {
		properties = append(properties, name+"="+strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(value))
	}
	switch {
	case at.Source != "":
		add("file", at.Source)
	case at.File != "" && at.File != manifest.Stdin:
		add("file", at.File)
		if at.Line > 0 {
			add("line", fmt.Sprint(at.Line))
		}
	}
	add("title", title)
	_, err := fmt.Fprintf(v.Stdout, "::%s %s::%s\n", level, strings.Join(properties, ","), strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text))
	return err
}
