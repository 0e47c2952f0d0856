// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// ConformanceFormats are the formats of WriteConformance.
var ConformanceFormats = []string{formatText, formatJSON}

// WriteConformance writes whether a server meets each requirement, in one of ConformanceFormats.
func WriteConformance(w io.Writer, format string, r v1alpha1.ConformanceResult) error {
	if format == formatJSON {
		return WriteJSON(w, r)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tLEVEL\tRIGHT\tREQUIREMENT\tSOURCE")
	var failures strings.Builder
	for _, rule := range r.Rules {
		right := "-"
		if rule.Questions > 0 {
			right = fmt.Sprintf("%d of %d", rule.Questions-rule.Failed, rule.Questions)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", rule.ID, rule.Level, right, rule.Text, rule.Source)
		for _, why := range rule.Failures {
			fmt.Fprintf(&failures, "%s %s: %s\n", rule.Level, rule.ID, visible(why))
		}
	}
	_ = table.Flush() // a strings.Builder has no errors
	if failures.Len() > 0 {
		b.WriteString("\n" + failures.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}
