// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lines maps the values of a document to the lines on which they begin.
type Lines struct {
	root *yaml.Node // nil: the text is not YAML
}

// NewLines returns the Lines of text, which is YAML or JSON.
func NewLines(text []byte) *Lines {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return &Lines{}
	}
	return &Lines{document.Content[0]}
}

// Of returns the line on which the value at path begins; 1 is the first line. If the
// value does not exist, Of returns the line of its closest existing parent. The path has
// the form of TypeError.Field: spec.dnsConfig.options[0].value, with keys that contain
// dots in brackets.
func (l *Lines) Of(path string) int {
	if l.root == nil {
		return 1
	}
	node, line := l.root, l.root.Line
	for path != "" {
		var step string
		if step, path = cutStep(path); step == "" {
			continue
		}
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		value, first := child(node, step)
		if value == nil {
			break
		}
		node, line = value, first
	}
	return line
}

// child returns the value at a key or an index of n, and the line on which its key or,
// in a sequence, the value itself begins.
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
