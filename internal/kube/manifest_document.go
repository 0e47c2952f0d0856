// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// manifestDocument is a document of a manifest.
type manifestDocument struct {
	number int    // 1 is the first
	line   int    // line of the file at which text begins
	text   []byte // as written
	json   []byte // text converted to JSON

	lines *document.Lines // nil until the first lineOf
}

// lineOf returns the line of the file on which the value at field begins, or its closest
// existing parent.
func (d *manifestDocument) lineOf(field string) int {
	if d.lines == nil {
		d.lines = document.NewLines(d.text)
	}
	return d.line + d.lines.Of(field) - 1
}

// source returns the template that Helm names in a comment at the start of the document,
// "" if there is none.
func (d *manifestDocument) source() string {
	for l := range bytes.Lines(d.text) {
		l = bytes.TrimSpace(l)
		if source, ok := bytes.CutPrefix(l, []byte("# Source: ")); ok {
			return string(source)
		}
		if len(l) > 0 && l[0] != '#' {
			break
		}
	}
	return ""
}

// yamlDocuments yields the documents of a YAML stream, each with the number of its first
// line. A line that begins with "---" starts a document, and the rest of that line
// belongs to it. A line "..." ends a document. Blank documents are skipped.
func yamlDocuments(data []byte) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		var text []byte
		start, line := 1, 0
		for l := range bytes.Lines(data) {
			line++
			rest, ok := cutSeparator(l)
			if !ok {
				text = append(text, l...)
				continue
			}
			if len(bytes.TrimSpace(text)) > 0 && !yield(text, start) {
				return
			}
			text, start = append([]byte(nil), rest...), line
		}
		if len(bytes.TrimSpace(text)) > 0 {
			yield(text, start)
		}
	}
}

// cutSeparator returns what follows the separator of documents at the start of line. It
// returns false if line is not a separator.
func cutSeparator(line []byte) (rest []byte, ok bool) {
	if string(bytes.TrimSpace(line)) == "..." && line[0] == '.' {
		return nil, true
	}
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || len(bytes.TrimSpace(rest)) == len(rest) && len(rest) > 0 {
		return nil, false // "----" and "---x" are text
	}
	return rest, true
}

// jsonDocuments returns the values of a stream of JSON values. The error is that of the
// decoder at the first byte that is not JSON, such as in YAML.
func jsonDocuments(data []byte) ([]manifestDocument, error) {
	var values []manifestDocument
	line, counted := 1, 0
	d := stdjson.NewDecoder(bytes.NewReader(data))
	for {
		var v stdjson.RawMessage
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return nil, err
		}
		start := int(d.InputOffset()) - len(v)
		line += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		values = append(values, manifestDocument{number: len(values) + 1, line: line, text: v, json: v})
	}
}
