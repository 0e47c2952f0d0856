// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"iter"
)

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
func jsonStream(data []byte) ([][]byte, error) {
	var values [][]byte
	d := stdjson.NewDecoder(bytes.NewReader(data))
	for {
		var v stdjson.RawMessage
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return values, nil
		case err != nil:
			return nil, err
		}
		values = append(values, v)
	}
}
