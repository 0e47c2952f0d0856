// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

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

// writeFindings writes what was found in w in one of the formats of validate.
func writeFindings(out io.Writer, format string, w kube.Workload, found []policy.Finding) error {
	if format == "json" {
		return json.NewEncoder(out).Encode(v1alpha1.ValidateResult{
			File: w.File, Document: w.Document, Source: w.Source,
			Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name, Findings: findings(found),
		})
	}
	for _, f := range found {
		at := w.Location
		at.Field = f.Field
		var err error
		if format == "github" {
			at.Line = w.LineOf(f.Field)
			err = annotate(out, f.Severity, at, string(f.Code), fmt.Sprintf("%s: %s\nhint: %s", f.Field, f.Message, f.Hint))
		} else {
			_, err = fmt.Fprintf(out, "%s: %s: %s (%s)\nhint: %s\n", place(at), f.Severity, f.Message, f.Code, f.Hint)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// place is where something stands, with the template that it is from in brackets.
func place(at kube.Location) string {
	if at.Source == "" {
		return at.String()
	}
	return at.String() + " [" + at.Source + "]"
}

// annotateErrors writes an annotation for everything in manifests that could not be
// read; standard error gets it too.
func annotateErrors(out io.Writer, err error) {
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
		_ = annotate(out, policy.SeverityError, input.Location, "unreadable", text)
	}
}

// annotate writes a workflow command of GitHub Actions
// (docs.github.com/actions/reference/workflow-commands-for-github-actions). What came
// through a pipe is annotated at its template, whose lines are not those of the pipe.
func annotate(out io.Writer, severity policy.Severity, at kube.Location, title, text string) error {
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
	_, err := fmt.Fprintf(out, "::%s %s::%s\n", level, strings.Join(properties, ","), strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text))
	return err
}
