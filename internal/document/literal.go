// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Literal returns the text of the string at path if it is written as a literal block ("key: |"),
// such as a file in a ConfigMap, in such a way that its positions are those of the document: each
// line keeps its number and its indentation, and the lines before it are empty.
// ok is false if the value is written in another way, or cannot be indented because it has document
// separators, or if the document has line breaks of YAML that are none for editors.
func (p *Positions) Literal(path string) (text []byte, ok bool) {
	n := p.node(path)
	if n == nil || n.Kind != yaml.ScalarNode || n.Style&yaml.LiteralStyle == 0 || otherBreaks(p.text) {
		return nil, false
	}
	lines := strings.Split(string(p.text), "\n")
	values := strings.Split(strings.TrimRight(n.Value, "\n"), "\n")
	if n.Line+len(values) > len(lines) { // the text is UTF-16
		return nil, false
	}
	lines = lines[n.Line:]
	for i, value := range values {
		indented := strings.HasSuffix(strings.TrimRight(lines[i], "\r"), value)
		if !indented || strings.HasPrefix(value, "---") || strings.HasPrefix(value, "...") {
			return nil, false
		}
	}
	return []byte(strings.Repeat("\n", n.Line) + strings.Join(lines[:len(values)], "\n") + "\n"), true
}

// otherBreaks reports whether text has a line break of YAML 1.1 other than LF and CR LF: CR, NEL, LS
// or PS (https://yaml.org/spec/1.1/#id871136). The decoder counts them as lines.
func otherBreaks(text []byte) bool {
	return bytes.Count(text, []byte("\r")) > bytes.Count(text, []byte("\r\n")) ||
		bytes.Contains(text, []byte("\u0085")) || bytes.Contains(text, []byte("\u2028")) || bytes.Contains(text, []byte("\u2029"))
}

// node returns the value at path, nil if it does not exist.
func (p *Positions) node(path string) *yaml.Node {
	n := p.root
	for path != "" && n != nil {
		var step string
		if step, path = cutStep(path); step != "" {
			n, _ = child(n, step)
		}
	}
	return n
}
