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

// part is a document of a manifest.
type part struct {
	number int    // 1 is the first
	line   int    // of the file, with which text begins
	text   []byte // as written
	json   []byte // the same in JSON

	lines *document.Lines // nil until somebody asks
}

// lineOf returns the line of the file on which the value at field begins, or what is
// there of the way to it.
func (p *part) lineOf(field string) int {
	if p.lines == nil {
		p.lines = document.NewLines(p.text)
	}
	return p.line + p.lines.Of(field) - 1
}

// source returns the template that the document is from, which Helm writes into a
// remark before it; "" without one.
func (p *part) source() string {
	for l := range bytes.Lines(p.text) {
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

// yamlDocuments yields the documents of a YAML stream, each with the number of its
// first line. A line that begins with "---" starts a document, and what follows on
// that line belongs to it; a line "..." ends one. Blank documents are left out.
func yamlDocuments(data []byte) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		var text []byte
		start, line := 1, 0
		for l := range bytes.Lines(data) {
			line++
			rest, parted := separator(l)
			if !parted {
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

func separator(line []byte) (rest []byte, ok bool) {
	if string(bytes.TrimSpace(line)) == "..." && line[0] == '.' {
		return nil, true
	}
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || len(bytes.TrimSpace(rest)) == len(rest) && len(rest) > 0 {
		return nil, false // "----" or "---x" is text
	}
	return rest, true
}

// jsonStream returns the values of a stream of JSON values. A text that is none,
// as YAML, is an error at its first byte that is not JSON.
func jsonStream(data []byte) ([]part, error) {
	var values []part
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
		values = append(values, part{number: len(values) + 1, line: line, text: v, json: v})
	}
}
