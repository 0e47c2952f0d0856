// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
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

// jsonDocuments returns the values of a stream of JSON values. isJSON is false if data does
// not begin with a JSON value, or if something other than JSON follows the last one, such as
// a separator or a comment of YAML: data is YAML then, which contains JSON. The error is that
// of the first value that is not complete, at its line; the values before it are returned.
func jsonDocuments(data []byte) (values []manifestDocument, isJSON bool, _ error) {
	line, counted := 1, 0
	d := stdjson.NewDecoder(bytes.NewReader(data))
	for {
		var v stdjson.RawMessage
		before := d.InputOffset()
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, true, nil
		case err != nil:
			rest := bytes.TrimLeft(data[before:], " \t\r\n")
			if len(values) == 0 || rest[0] != '{' && rest[0] != '[' {
				return nil, false, nil
			}
			return values, true, jsonError(data, rest)
		}
		start := int(d.InputOffset()) - len(v)
		line += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		values = append(values, manifestDocument{number: len(values) + 1, line: line, text: v, json: v})
	}
}

// jsonError returns the error of the invalid value at the start of rest, the end of data,
// with its line.
func jsonError(data, rest []byte) error {
	var v any
	err := stdjson.Unmarshal(rest, &v)
	end := len(data) - len(rest)
	if s, ok := errors.AsType[*stdjson.SyntaxError](err); ok {
		end += int(s.Offset)
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(bytes.TrimRight(data[:end], "\n"), []byte("\n")), err)
}
