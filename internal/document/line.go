// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lines tells on which lines the values of a document begin.
type Lines struct {
	root *yaml.Node // nil: it is no YAML
}

// NewLines returns the Lines of text, YAML or JSON.
func NewLines(text []byte) *Lines {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return &Lines{}
	}
	return &Lines{document.Content[0]}
}

// Of returns the line on which the value at path begins, or what is there of the way
// to it: 1 is the first line. A path is written as in a TypeError:
// spec.dnsConfig.options[0].value; a key with dots stands in brackets.
func (l *Lines) Of(path string) int {
	if l.root == nil {
		return 1
	}
	at, line := l.root, l.root.Line
	for step := range steps(path) {
		if at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		value, first := child(at, step)
		if value == nil {
			break
		}
		at, line = value, first
	}
	return line
}

// child returns the value at a key or an index of n, and the line on which it begins;
// for a key that is the key's.
func child(n *yaml.Node, step string) (value *yaml.Node, line int) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}

// steps yields the keys and the indexes of a path.
func steps(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for path != "" {
			var step string
			if inner, ok := strings.CutPrefix(path, "["); ok {
				step, path, _ = strings.Cut(inner, "]")
				if key, err := strconv.Unquote(step); err == nil {
					step = key
				}
			} else {
				end := strings.IndexAny(path, ".[")
				if end < 0 {
					end = len(path)
				}
				step, path = path[:end], path[end:]
			}
			path = strings.TrimPrefix(path, ".")
			if step != "" && !yield(step) {
				return
			}
		}
	}
}
