// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// WriteError writes each of the errors that err joins, with its hint.
func WriteError(w io.Writer, err error) {
	if err == nil {
		return
	}
	for _, e := range multierr.Unjoin(err) {
		fmt.Fprintf(w, "dnsconfigurer: %s\n", visible(e.Error()))
		if input, ok := errors.AsType[*kube.InputError](e); ok && input.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", visible(input.Hint))
		}
	}
}

// WriteJSON writes v as indented JSON, for a result that is one object.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// WriteNotes writes what a command has passed over in its input: the notes of a manifest, and
// one about all its unknown fields.
func WriteNotes(w io.Writer, m kube.Manifest) {
	WriteError(w, errors.Join(append(m.Notes, kube.NoteUnknown(m.Unknown))...))
}

// WriteFindings writes findings about a node.
func WriteFindings(w io.Writer, findings []policy.Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "dnsconfigurer: %s: %s\nhint: %s\n", f.Severity, visible(f.Message), hint(f))
	}
}

// hint returns the hint of f, and how many findings with its code are left out after it.
func hint(f policy.Finding) string {
	if f.More == 0 {
		return visible(f.Hint)
	}
	return fmt.Sprintf("%s\nand %d more %s", visible(f.Hint), f.More, f.Code)
}

// Findings converts findings about a node to their JSON form. The result is never nil.
func Findings(findings []policy.Finding) []v1alpha1.Finding {
	list := make([]v1alpha1.Finding, 0, len(findings))
	for _, f := range findings {
		list = append(list, v1alpha1.Finding{
			Code:       string(f.Code),
			Severity:   string(f.Severity),
			EnforcedBy: string(f.EnforcedBy),
			Reason:     f.Reason,
			Field:      f.Field,
			Message:    f.Message,
			Hint:       f.Hint,
			More:       f.More,
		})
	}
	return list
}

// findingsAt converts findings to their JSON form, with their places.
func findingsAt(place func(field string) kube.Location, findings []policy.Finding) []v1alpha1.Finding {
	list := Findings(findings)
	for i, f := range findings {
		if !aboutNode(f) {
			at := place(f.Field)
			list[i].Line, list[i].Column = at.Line, at.Column
		}
	}
	return list
}

// aboutNode reports whether a finding is about the node instead of a pod.
func aboutNode(f policy.Finding) bool {
	return f.Field == policy.FieldResolvConf || f.Field == policy.FieldClusterDNS
}
