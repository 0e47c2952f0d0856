// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Line returns the line of text, YAML or JSON, on which the value at path begins, or
// what is there of the way to it: 1 is the first line. A path is written as in a
// TypeError: spec.dnsConfig.options[0].value; a key with dots stands in brackets.
func Line(text []byte, path string) int {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) == 0 {
		return 1
	}
	at := root.Content[0]
	line := at.Line
	for step := range steps(path) {
		if at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		var next *yaml.Node
		switch at.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(at.Content); i += 2 {
				if at.Content[i].Value == step {
					next, line = at.Content[i+1], at.Content[i].Line
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && 0 <= i && i < len(at.Content) {
				next, line = at.Content[i], at.Content[i].Line
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	return line
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
