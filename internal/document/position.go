// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
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
	if p.root == nil {
		return Position{1, 1}
	}
	node, at := p.root, p.root
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
		node, at = value, first
	}
	return Position{at.Line, at.Column}
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
