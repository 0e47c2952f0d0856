// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// WriteRules writes what each code of a finding means, one a line, or with a code what that one means.
func WriteRules(w io.Writer, code string) error {
	type rule struct{ code, severity, by, text string }
	var rules []rule
	for _, d := range admission.CodeDocs() {
		rules = append(rules, rule{string(d.Code), d.Severity, d.EnforcedBy, d.Text})
	}
	for _, c := range doctor.Checks() {
		rules = append(rules, rule{c.Code, string(c.Severity), "doctor", c.What})
	}
	var codes []string
	for _, r := range rules {
		switch codes = append(codes, r.code); code {
		case "":
			if _, err := fmt.Fprintf(w, "%-26s  %-14s  %s\n", r.code, r.severity, r.text); err != nil {
				return err
			}
		case r.code:
			by := "enforced by: " + r.by
			if r.by == "doctor" {
				by = "reported by: dnsconfigurer doctor"
			}
			_, err := fmt.Fprintf(w, "%s\nseverity:    %s\n%s\nmeaning:     %s\n", r.code, r.severity, by, r.text)
			return err
		}
	}
	if code == "" {
		return nil
	}
	if meant, ok := excerpt.Closest(code, codes); ok {
		return usage.Errorf("unknown code %s: did you mean %s?", excerpt.Quote(code), meant)
	}
	return usage.Errorf("unknown code %s: docs/checks.md#rules-rules has the rules of render, such as H1", excerpt.Quote(code))
}
