// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Literal returns the text of a string of a YAML document that is written as a literal block
// ("key: |"), such as a file in a ConfigMap, in such a way that its positions are those of the
// document: each line keeps its number and its indentation, and the lines before it are empty.
// ok is false if the value at path is written in another way, or cannot be indented: it has
// document separators.
func Literal(document []byte, path string) (text []byte, ok bool) {
	n := NewPositions(document).node(path)
	if n == nil || n.Kind != yaml.ScalarNode || n.Style&yaml.LiteralStyle == 0 {
		return nil, false
	}
	lines := strings.Split(string(document), "\n")[n.Line:]
	values := strings.Split(strings.TrimRight(n.Value, "\n"), "\n")
	if len(values) > len(lines) {
		return nil, false
	}
	for i, value := range values {
		indented := strings.HasSuffix(strings.TrimRight(lines[i], "\r"), value)
		if !indented || strings.HasPrefix(value, "---") || strings.HasPrefix(value, "...") {
			return nil, false
		}
	}
	return []byte(strings.Repeat("\n", n.Line) + strings.Join(lines[:len(values)], "\n") + "\n"), true
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
