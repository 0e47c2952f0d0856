// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
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
	for _, e := range multierr.Unjoin(err) {
		fmt.Fprintf(w, "dnsconfigurer: %v\n", e)
		if input, ok := errors.AsType[*kube.InputError](e); ok && input.Hint != "" {
			fmt.Fprintf(w, "hint: %s\n", input.Hint)
		}
	}
}

// WriteFindings writes findings about a node.
func WriteFindings(w io.Writer, findings []policy.Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "dnsconfigurer: %s: %s\nhint: %s\n", f.Severity, f.Message, hint(f))
	}
}

// hint returns the hint of f, and how many findings with its code are left out after it.
func hint(f policy.Finding) string {
	if f.More == 0 {
		return f.Hint
	}
	return fmt.Sprintf("%s\nand %d more %s", f.Hint, f.More, f.Code)
}

// Findings converts findings to their JSON form. The result is never nil.
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
