// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Explain returns the decision as text for a person: the steps, then every entry
// that the pod gets and every one that it was offered and does not get, each with
// its source and the rule that decided, then names and findings. The text is for
// reading; its form may change.
func (d *Decision) Explain() string {
	var b strings.Builder
	for _, r := range d.Steps {
		fmt.Fprintf(&b, "%-10s  %s %s\n", rules[r].stage, r, r.Text())
	}
	b.WriteString("kept\n")
	for _, list := range [][]Entry{d.Nameservers, d.Searches, d.Options} {
		for _, e := range list {
			row(&b, e.Kind.String(), e.Text, e.source(d.hostFile), e.Rule.String()+" "+e.Rule.Text())
		}
	}
	row(&b, "hostname", d.Hostname, "", "")
	if d.FQDN != "" {
		row(&b, "fqdn", d.FQDN, "", "")
	}
	if len(d.Dropped)+len(d.Ignored) > 0 {
		b.WriteString("dropped\n")
	}
	for _, i := range d.Ignored {
		row(&b, "line", i.Text, d.hostFile+":"+strconv.Itoa(i.Line), i.Why.Rule()+" "+i.Why.String())
	}
	for _, e := range d.Dropped {
		row(&b, e.Kind.String(), e.Text, e.source(d.hostFile), e.Rule.String()+" "+e.Rule.Text())
	}
	if d.Error != "" {
		fmt.Fprintf(&b, "error\n  %s\n", d.Error)
	}
	if len(d.Findings) > 0 {
		b.WriteString("findings\n")
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "  %s %s (%s): %s; %s\n", f.Severity, f.Code, f.Field, f.Message, f.Hint)
	}
	return b.String()
}

// row writes one line of a table whose columns fit what pods usually have; a
// longer value pushes its line to the right.
func row(b *strings.Builder, kind, text, source, why string) {
	line := fmt.Sprintf("  %-10s %-34s %-24s %s", kind, printable(text), source, why)
	b.WriteString(strings.TrimRight(line, " "))
	b.WriteByte('\n')
}

// printable quotes a text that would be invisible or break the table.
func printable(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) && r != ' ' || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
