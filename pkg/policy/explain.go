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

// Explain returns d as text for people: the steps, the entries kept and dropped with their
// sources, below the rule that kept or dropped them, the host name, the error and the findings.
// Sentences are wrapped at 100 columns; values are not. The format may change in any release.
func (d *Decision) Explain() string {
	var b strings.Builder
	applied := d.NodeRules
	for _, r := range d.Steps {
		fmt.Fprintf(&b, "%-8s  %s %s", rules[r].stage, r, r.Text())
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
		b.WriteString("error\n")
		writeWrapped(&b, "  ", "  ", d.Error)
	}
	if len(d.Findings) > 0 {
		b.WriteString("findings\n")
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "  %s %s at %s\n", f.Severity, f.Code, f.Field)
		writeWrapped(&b, "    ", "    ", f.Message)
		writeWrapped(&b, "    hint: ", "          ", f.Hint)
		if f.More > 0 {
			fmt.Fprintf(&b, "  and %d more %s\n", f.More, f.Code)
		}
	}
	return b.String()
}

// maxColumns is the width at which sentences are wrapped.
const maxColumns = 100

// writeWrapped writes first and text, wrapped at single spaces. The lines after the first one
// begin with next. A word that is too long has a line of its own.
func writeWrapped(b *strings.Builder, first, next, text string) {
	text = strings.TrimRight(text, " ")
	for indent := first; text != ""; indent = next {
		end := len(text)
		if width := maxColumns - len(indent); end > width {
			if i := strings.LastIndexByte(text[:width+1], ' '); i > 0 {
				end = i
			} else if i := strings.IndexByte(text[width:], ' '); i >= 0 {
				end = width + i
			}
		}
		b.WriteString(indent + text[:end] + "\n")
		text = strings.TrimPrefix(text[end:], " ")
	}
}

// row is one entry of the explanation: kind, text, source, and the reason why it is kept or
// dropped. Consecutive rows with the same reason are written below it.
type row struct {
	cells  [3]string
	reason string
}

func (d *Decision) row(e Entry) row {
	return row{[3]string{e.Kind.String(), printable(e.Text), d.source(e)}, e.Rule.String() + " " + e.Rule.Text()}
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

func moreRows(n int) row { return row{cells: [3]string{"and " + strconv.Itoa(n) + " more"}} }

func (d *Decision) keptRows() []row {
	rows := d.entryRows(d.Nameservers)
	rows = append(rows, d.entryRows(d.Searches)...)
	rows = append(rows, d.entryRows(d.Options)...)
	switch {
	case d.Hostname != "":
		rows = append(rows, row{cells: [3]string{"hostname", printable(d.Hostname)}})
	case d.Error == "":
		rows = append(rows, row{cells: [3]string{"hostname", "the node's"}})
	}
	if d.FQDN != "" {
		rows = append(rows, row{cells: [3]string{"fqdn", printable(d.FQDN)}})
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
		source := d.hostFile + ":" + strconv.Itoa(i.Line)
		rows = append(rows, row{[3]string{"line", printable(i.Text), source}, reason})
	}
	return append(rows, d.entryRows(d.Dropped)...)
}

// columns are the widths of the first two cells of rows.
type columns [2]int

// columnWidths returns the widths for rows. A text of more than 44 bytes makes its own line
// longer, not the whole table wider.
func columnWidths(rows []row) columns {
	const limit = 44
	var c columns
	for _, r := range rows {
		for i := range c {
			if n := len(r.cells[i]); n <= limit {
				c[i] = max(c[i], n)
			}
		}
	}
	return c
}

// write writes rows below their reasons. Rows without a reason, such as the host name, are
// indented like a reason.
func (c columns) write(b *strings.Builder, rows []row) {
	reason := ""
	for _, r := range rows {
		indent := "    "
		if r.reason == "" {
			indent = "  "
		} else if r.reason != reason {
			b.WriteString("  " + r.reason + "\n")
		}
		reason = r.reason
		line := fmt.Sprintf("%s%-*s  %-*s  %s", indent, c[0], r.cells[0], c[1], r.cells[1], r.cells[2])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
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
