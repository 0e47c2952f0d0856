// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// manualPages returns a manual page for each command, made of its help text. The text keeps
// its line breaks, because it is laid out for terminals.
func (r *release) manualPages(ctx context.Context) ([]entry, error) {
	return r.manualPagesBelow(ctx, command{short: summary})
}

// A command is a command of the program: the words after the program's name, and what the
// help text of its parent says about it.
type command struct {
	words []string
	short string
}

// manualPagesBelow returns the page of c and those of its subcommands.
func (r *release) manualPagesBelow(ctx context.Context, c command) ([]entry, error) {
	help, err := r.output(ctx, append(slices.Clone(c.words), "--help")...)
	if err != nil {
		return nil, err
	}
	name := strings.Join(append([]string{"dnsconfigurer"}, c.words...), "-")
	pages := []entry{{name: "man/man1/" + name + ".1", mode: 0o644, data: r.manualPage(name, c.short, string(help))}}
	for _, sub := range c.subcommands(string(help)) {
		below, err := r.manualPagesBelow(ctx, sub)
		if err != nil {
			return nil, err
		}
		pages = append(pages, below...)
	}
	return pages, nil
}

var subcommandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +(.*)$`)

// subcommands returns the commands that the help text of c lists, without those that cobra
// adds. They are in the sections with other headings than those of cobra's template.
func (c command) subcommands(help string) (list []command) {
	_, sections, _ := strings.Cut(help, "\nUsage:\n")
	for part := range strings.SplitSeq(sections, "\n\n") {
		heading, table, found := strings.Cut(part, ":\n")
		if !found || slices.Contains([]string{"Aliases", "Examples", "Flags", "Global Flags"}, heading) {
			continue
		}
		for _, m := range subcommandLine.FindAllStringSubmatch(table, -1) {
			if m[1] != "help" && m[1] != "completion" {
				list = append(list, command{append(slices.Clone(c.words), m[1]), m[2]})
			}
		}
	}
	return list
}

// manualPage returns a page in the format of man(7).
func (r *release) manualPage(name, short, help string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, ".TH %s 1 %q %q\n", strings.ToUpper(name), r.time.Format("2006-01-02"), "dnsconfigurer")
	description, rest, _ := strings.Cut(help, "\nUsage:\n")
	fmt.Fprintf(&out, ".SH NAME\n%s \\- %s\n", escapeRoff(name), escapeRoff(short))
	section(&out, "DESCRIPTION", description)
	heading := "SYNOPSIS"
	for part := range strings.SplitSeq(rest, "\n\n") {
		if first, lines, found := strings.Cut(part, ":\n"); found && !strings.HasPrefix(part, " ") {
			heading, part = strings.ToUpper(first), lines
		}
		section(&out, heading, part)
		heading = "NOTES"
	}
	return out.Bytes()
}

// section writes a section whose text is shown as it is.
func section(out *bytes.Buffer, heading, text string) {
	if text = strings.TrimRight(text, "\n"); text != "" {
		fmt.Fprintf(out, ".SH %s\n.nf\n%s\n.fi\n", heading, escapeRoff(text))
	}
}

// escapeRoff escapes the characters that are special to roff: backslashes, hyphens, and dots
// and quotes at the start of a line.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
