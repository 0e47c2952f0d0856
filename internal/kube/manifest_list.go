// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// splitList parses the items of a YAML list one by one, as kubectl writes a List: a sequence in block style below the key
// items. Parsed as a whole, the pods of a large cluster take 30 times the memory of their text. It returns false if the
// document is not such a list, or an item is not an object by itself, such as one with an alias of another: then the
// document is parsed as a whole, and its errors are reported.
func (p *parser) splitList(d manifestDocument) bool {
	line, _, _ := bytes.Cut(d.text, []byte("\n"))
	if d.before > 0 && len(bytes.TrimSpace(line)) > 0 || d.source() != "" {
		return false
	}
	first, end, indent, ok := findItems(d.text)
	if !ok {
		return false
	}
	head, items := d.text[:first], d.text[first:end]
	rest := slices.Concat(head, bytes.Repeat([]byte("\n"), bytes.Count(items, []byte("\n"))), d.text[end:])
	var t objectType
	js, err := document.JSON(rest, d.line)
	if err != nil || document.Decode(js, &t) != nil || !t.isList() {
		return false
	}
	before := *p
	d.line += bytes.Count(head, []byte("\n"))
	for i := 0; len(items) > 0; i++ {
		n := itemLen(items, indent)
		item := manifestDocument{number: d.number, line: d.line, item: fmt.Sprintf("items[%d].", i), text: items[:n:n]}
		js, err := document.JSON(item.value(), item.line)
		if err != nil || !bytes.HasPrefix(js, []byte("{")) {
			*p = before
			return false
		}
		p.doc, p.item = &item, item.item
		p.object(js, t.itemType())
		d.line, items = d.line+bytes.Count(item.text, []byte("\n")), items[n:]
	}
	p.item = ""
	return true
}

var (
	itemsKey = regexp.MustCompile(`(?m)^items:[ \t\r]*\n`)

	// topKey is the beginning of a line after the items: another field of the list.
	topKey = regexp.MustCompile(`^[A-Za-z]+:\s`)
)

// findItems returns where the items of a list begin and end in its text, and the blanks before their dashes. ok is false if
// the value of the key items is not a sequence in block style.
func findItems(text []byte) (first, end, indent int, ok bool) {
	key := itemsKey.FindIndex(text)
	if key == nil {
		return 0, 0, 0, false
	}
	end, indent = key[1], -1
	for l := range bytes.Lines(text[end:]) {
		switch at := indentOf(l); {
		case isBlank(l):
		case indent < 0 && beginsItem(l, at):
			first, indent = end, at
		case indent >= 0 && (at > indent || beginsItem(l, indent)):
		default:
			return first, end, indent, indent >= 0 && topKey.Match(l)
		}
		end += len(l)
	}
	return first, end, indent, indent >= 0
}

// itemLen returns the length of the first item in text, which begins with its line.
func itemLen(text []byte, indent int) (n int) {
	for l := range bytes.Lines(text) {
		if n > 0 && beginsItem(l, indent) {
			break
		}
		n += len(l)
	}
	return n
}

func indentOf(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }

// isBlank reports whether a line has no value. In a block scalar, such a line is indented or empty.
func isBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// beginsItem reports whether a line has the dash of an item after indent blanks.
func beginsItem(line []byte, indent int) bool {
	if indentOf(line) != indent || !bytes.HasPrefix(line[indent:], []byte("-")) {
		return false
	}
	return len(line) == indent+1 || bytes.ContainsAny(line[indent+1:indent+2], " \t\r\n")
}
