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

// splitList returns the items of a YAML list as documents of their own, as kubectl writes a List: a sequence in block style
// below the key items. Parsed as a whole, the pods of a large cluster take 30 times the memory of their text. ok is false
// if the document is not such a list, or an item is not YAML by itself, such as one with an alias of another: then the
// document is parsed as a whole, and its errors are reported.
func splitList(d manifestDocument) (items []manifestDocument, ok bool) {
	first, _, _ := bytes.Cut(d.text, []byte("\n"))
	if d.before > 0 && len(bytes.TrimSpace(first)) > 0 || d.source() != "" {
		return nil, false
	}
	rest, items := cutItems(d)
	if len(items) == 0 {
		return nil, false
	}
	var t objectType
	js, err := document.JSON(rest, d.line)
	if err != nil || document.Decode(js, &t) != nil || !t.isList() {
		return nil, false
	}
	for i := range items {
		items[i].inherited = t.itemType()
		items[i].json, err = document.JSON(items[i].text, items[i].line)
		if err != nil || string(items[i].json) == "null" {
			return nil, false
		}
	}
	return items, true
}

// topKey is the beginning of a line after the items: another field of the list.
var topKey = regexp.MustCompile(`^[A-Za-z]+:\s`)

// cutItems returns the items of a document without their JSON, and the rest, in which the lines of the items are empty. In
// an item, a blank replaces the dash, so that its columns are those of the file.
func cutItems(d manifestDocument) (rest []byte, items []manifestDocument) {
	text := bytes.Clone(d.text)
	lines := slices.Collect(bytes.Lines(text))
	first := 1 + slices.IndexFunc(lines, func(l []byte) bool { return string(bytes.TrimRight(l, " \t\r\n")) == "items:" })
	for first > 0 && first < len(lines) && isBlank(lines[first]) {
		first++
	}
	if first == 0 || first == len(lines) {
		return nil, nil
	}
	indent, end := indentOf(lines[first]), first
	for end < len(lines) && (isBlank(lines[end]) || indentOf(lines[end]) > indent || beginsItem(lines[end], indent)) {
		end++
	}
	if end == first || end < len(lines) && !topKey.Match(lines[end]) {
		return nil, nil // items is not such a sequence
	}
	before := bytes.Join(lines[:first], nil)
	rest = slices.Concat(before, bytes.Repeat([]byte("\n"), end-first), bytes.Join(lines[end:], nil))
	begin, at := 0, len(before)
	for i, l := range lines[first:end] {
		if beginsItem(l, indent) {
			l[indent], begin = ' ', at
			path := fmt.Sprintf("items[%d].", len(items))
			items = append(items, manifestDocument{number: d.number, line: d.line + first + i, item: path})
		}
		at += len(l)
		items[len(items)-1].text = text[begin:at]
	}
	return rest, items
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
