// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// manifestDocument is a document of a manifest.
type manifestDocument struct {
	number int    // 1 is the first
	line   int    // of the file, at which text begins
	before int    // the characters before text on that line
	text   []byte // as written
	json   []byte // text converted to JSON

	positions *document.Positions // nil until the first position
}

// position returns where in the file the value at field begins, or its closest existing
// parent.
func (d *manifestDocument) position(field string) (line, column int) {
	if d.positions == nil {
		d.positions = document.NewPositions(d.text)
	}
	at := d.positions.Of(field)
	if at.Line == 1 {
		at.Column += d.before
	}
	return d.line + at.Line - 1, at.Column
}

// origin is where an object is from.
type origin struct {
	file string
	doc  *manifestDocument
	item string // its path in a list, such as "items[2].", "" outside of lists
}

// File returns the name of the file.
func (o origin) File() string { return o.file }

// path converts a path in the object to a path in the document.
func (o origin) path(field string) string { return strings.TrimSuffix(o.item+field, ".") }

// At returns the place of a field. field is a path from the document; "" is the object. A
// field that does not exist is at its closest existing parent. At is not safe for concurrent
// use with other objects of the same Manifest.
func (o origin) At(field string) Location {
	l := Location{File: o.file, Document: o.doc.number, Field: field, Source: o.doc.source()}
	l.Line, l.Column = o.doc.position(cmp.Or(field, o.path("")))
	return l
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

// yamlDocuments yields the documents of a YAML stream, without their JSON. A line that begins
// with "---" starts a document, and the rest of that line belongs to it. A line "..." ends a
// document. Blank documents are skipped.
func yamlDocuments(data []byte) iter.Seq[manifestDocument] {
	return func(yield func(manifestDocument) bool) {
		d, line, number := manifestDocument{line: 1}, 0, 0
		next := func() bool {
			if len(bytes.TrimSpace(d.text)) == 0 {
				return true
			}
			number++
			d.number = number
			return yield(d)
		}
		for l := range bytes.Lines(data) {
			line++
			rest, ok := cutSeparator(l)
			if !ok {
				d.text = append(d.text, l...)
				continue
			}
			if !next() {
				return
			}
			d = manifestDocument{line: line, before: len(l) - len(rest), text: bytes.Clone(rest)}
		}
		next()
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
		end := d.InputOffset()
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, true, nil
		case err != nil:
			rest := bytes.TrimLeft(data[end:], " \t\r\n")
			if len(values) == 0 || rest[0] != '{' && rest[0] != '[' {
				return nil, false, nil
			}
			return values, true, jsonError(data, rest)
		}
		start := int(d.InputOffset()) - len(v)
		line += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		before := utf8.RuneCount(data[bytes.LastIndexByte(data[:start], '\n')+1 : start])
		values = append(values, manifestDocument{number: len(values) + 1, line: line, before: before, text: v, json: v})
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
	return &document.LineError{Line: 1 + bytes.Count(bytes.TrimRight(data[:end], "\n"), []byte("\n")), Problem: err.Error()}
}
