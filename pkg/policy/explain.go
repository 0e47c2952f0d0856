// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// Explain returns d as text for people: the steps, the entries kept and dropped, each with
// its source and its rule, the host name, the error and the findings. The format may
// change in any release.
func (d *Decision) Explain() string {
	var b strings.Builder
	applied := d.NodeRules
	for _, r := range d.Steps {
		fmt.Fprintf(&b, "%-10s  %s %s", rules[r].stage, r, r.Text())
		if len(applied) > 0 && applied[0].Rule == r {
			b.WriteString(", " + nodeRuleField(applied[0].Index))
			applied = applied[1:]
		}
		b.WriteByte('\n')
	}
	kept, dropped := d.keptRows(), d.droppedRows()
	width := columnWidths(slices.Concat(kept, dropped))
	b.WriteString("kept\n")
	width.write(&b, kept)
	if len(dropped) > 0 {
		b.WriteString("dropped\n")
		width.write(&b, dropped)
	}
	if d.Error != "" {
		fmt.Fprintf(&b, "error\n  %s\n", strings.TrimRight(d.Error, " "))
	}
	if len(d.Findings) > 0 {
		b.WriteString("findings\n")
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "  %s %s at %s\n    %s\n    hint: %s\n", f.Severity, f.Code, f.Field, strings.TrimRight(f.Message, " "), f.Hint)
		if f.More > 0 {
			fmt.Fprintf(&b, "  and %d more %s\n", f.More, f.Code)
		}
	}
	return b.String()
}

// row is one line of the explanation: kind, text, source and rule.
type row [4]string

func (d *Decision) row(e Entry) row {
	return row{e.Kind.String(), printable(e.Text), d.source(e), e.Rule.String() + " " + e.Rule.Text()}
}

// maxRows is the largest number of rows about one list. A pod may have 200,000 options.
const maxRows = 1000

// entryRows returns the rows of the first maxRows of entries.
func (d *Decision) entryRows(entries []Entry) []row {
	var rows []row
	for i, e := range entries {
		if i == maxRows {
			return append(rows, moreRows(len(entries)-i))
		}
		rows = append(rows, d.row(e))
	}
	return rows
}

func moreRows(n int) row { return row{"and " + strconv.Itoa(n) + " more"} }

func (d *Decision) keptRows() []row {
	rows := d.entryRows(d.Nameservers)
	rows = append(rows, d.entryRows(d.Searches)...)
	rows = append(rows, d.entryRows(d.Options)...)
	rows = append(rows, row{"hostname", printable(d.Hostname)})
	if d.FQDN != "" {
		rows = append(rows, row{"fqdn", printable(d.FQDN)})
	}
	return rows
}

func (d *Decision) droppedRows() []row {
	var rows []row
	for n, i := range d.Ignored {
		if n == maxRows {
			rows = append(rows, moreRows(len(d.Ignored)-n))
			break
		}
		reason := i.Reason.Rule() + " " + i.Reason.String()
		if i.ReplacedBy > 0 {
			reason += ", line " + strconv.Itoa(i.ReplacedBy)
		}
		rows = append(rows, row{"line", printable(i.Text), d.hostFile + ":" + strconv.Itoa(i.Line), reason})
	}
	return append(rows, d.entryRows(d.Dropped)...)
}

// columns are the widths of the first three columns of rows.
type columns [3]int

// columnWidths returns the widths for rows. A text of more than 44 bytes makes its own line
// longer, not the whole table wider.
func columnWidths(rows []row) columns {
	const limit = 44
	var c columns
	for _, r := range rows {
		for i := range c {
			if n := len(r[i]); n <= limit {
				c[i] = max(c[i], n)
			}
		}
	}
	return c
}

func (c columns) write(b *strings.Builder, rows []row) {
	for _, r := range rows {
		line := fmt.Sprintf("  %-*s  %-*s  %-*s  %s", c[0], r[0], c[1], r[1], c[2], r[2], r[3])
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
}

// printable returns s, or its beginning if it is long. It quotes s if it is invisible or would break the table.
func printable(s string) string {
	s = excerpt.Text(s, maxMessage)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) && r != ' ' || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
