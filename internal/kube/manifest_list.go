// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"fmt"
	"regexp"

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
// an item, a blank is in the place of the dash, so that its columns are those of the file.
func cutItems(d manifestDocument) (rest []byte, items []manifestDocument) {
	text, line, begin, end := bytes.Clone(d.text), d.line-1, 0, 0
	inItems, indent := false, -1
	for l := range bytes.Lines(text) {
		line, end = line+1, end+len(l)
		content := bytes.TrimLeft(l, " ")
		at := len(l) - len(content)
		isBlank := len(bytes.TrimSpace(content)) == 0 || content[0] == '#'
		isItem := bytes.HasPrefix(content, []byte("-")) && (len(content) == 1 || bytes.ContainsAny(content[1:2], " \t\r\n"))
		switch {
		case !inItems:
			inItems = at == 0 && string(bytes.TrimSpace(l)) == "items:"
		case isItem && indent < 0:
			indent = at
		case isBlank || at > indent && indent >= 0 || at == indent && isItem:
		case indent < 0 || at > 0 || !topKey.Match(content):
			return nil, nil // items is not such a sequence
		default:
			inItems = false
		}
		if !inItems || indent < 0 {
			rest = append(rest, l...)
			continue
		}
		rest = append(rest, '\n')
		if isItem && at == indent {
			l[at], begin = ' ', end-len(l)
			items = append(items, manifestDocument{number: d.number, line: line, item: fmt.Sprintf("items[%d].", len(items))})
		}
		items[len(items)-1].text = text[begin:end]
	}
	return rest, items
}
