// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a text. The first line and the first column are 1; a column is a
// character.
type Position struct{ Line, Column int }

// Positions maps the values of a document to the places at which they begin.
type Positions struct {
	root *yaml.Node // nil: the text is not YAML
	text []byte
}

// NewPositions returns the Positions of text, which is YAML or JSON. The text must not change later.
func NewPositions(text []byte) *Positions {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return &Positions{}
	}
	return &Positions{document.Content[0], text}
}

// Of returns where the value at path begins: at its key, or at itself in a list. If the
// value does not exist, Of returns the place of its closest existing parent. The path has
// the form of TypeError.Field: spec.dnsConfig.options[0].value, with keys that contain
// dots in brackets.
func (p *Positions) Of(path string) Position {
	if p == nil || p.root == nil {
		return Position{1, 1}
	}
	_, at := p.find(path)
	return Position{at.Line, at.Column}
}

// find returns the value at path, nil if it does not exist, and where it or its closest existing parent begins.
func (p *Positions) find(path string) (value, at *yaml.Node) {
	value, at = p.root, p.root
	for path != "" {
		var step string
		if step, path = cutStep(path); step == "" {
			continue
		}
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		next, first := child(value, step)
		if next == nil {
			return nil, at
		}
		value, at = next, first
	}
	return value, at
}

// child returns the value at a key or an index of n, and where it begins: its key or, in a
// sequence, the value itself.
func child(n *yaml.Node, step string) (value, first *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	return nil, nil
}

// cutStep returns the first key or index of a path, and what follows it.
func cutStep(path string) (step, rest string) {
	if inner, ok := strings.CutPrefix(path, "["); ok {
		step, rest, _ = strings.Cut(inner, "]")
		if key, err := strconv.Unquote(step); err == nil {
			step = key
		}
	} else {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		step, rest = path[:end], path[end:]
	}
	return step, strings.TrimPrefix(rest, ".")
}

// Literal returns the text of the string at path if it is written as a literal block ("key: |"),
// such as a file in a ConfigMap. Each line keeps its number in the document and its indentation; the
// lines before it are empty. ok is false if the value is written in another way or has document
// separators, or if the document has line breaks that editors do not count.
func (p *Positions) Literal(path string) (text []byte, ok bool) {
	if p.root == nil {
		return nil, false
	}
	n, _ := p.find(path)
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

// Location is a place in a manifest or in a configuration file. Its text is "file:line:column".
type Location struct {
	File         string // "": not in a file, such as a flag
	Document     int    // 1 is the first; 0: the file as a whole
	Line, Column int    // of the file, from 1; 0: not known

	Field  string // path from the document; "": the document as a whole
	Source string // the template in the comment that Helm writes before a document; "": none
}

func (l Location) String() string {
	switch {
	case l.Line == 0:
		return l.File
	case l.Column == 0:
		return fmt.Sprintf("%s:%d", l.File, l.Line)
	}
	return fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column)
}

// Name returns the location and the field: "file:line:column: field".
func (l Location) Name() string {
	switch {
	case l.File == "":
		return l.Field
	case l.Field == "":
		return l.String()
	}
	return l.String() + ": " + l.Field
}

// InputError is an error in a manifest or in a configuration file.
type InputError struct {
	Location
	Err  error
	Hint string // how to correct it; "": none
}

func (e *InputError) Error() string {
	if name := e.Name(); name != "" {
		return name + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Text returns the error without its place: the field and the problem.
func (e *InputError) Text() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *InputError) Unwrap() error { return e.Err }
