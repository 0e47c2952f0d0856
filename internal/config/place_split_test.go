// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

func TestPlaces_Split(t *testing.T) {
	p := ReadPlaces("a.yaml")
	tests := []struct {
		text  string
		at    document.Position
		field string
		rest  string
	}{
		{`a.yaml:7:3: mode: "Guess": want Generate`, document.Position{Line: 7, Column: 3}, "mode", `"Guess": want Generate`},
		{"a.yaml:7:3: node.rules[0].options[1]: is empty", document.Position{Line: 7, Column: 3}, "node.rules[0].options[1]", "is empty"},
		{"a.yaml:4: did not find expected node content", document.Position{Line: 4}, "", "did not find expected node content"},
		{"a.yaml: mode: is empty", document.Position{}, "mode", "is empty"},
		{"b.yaml:1:1: mode: is empty", document.Position{}, "", "b.yaml:1:1: mode: is empty"},
		{"a.yaml:1:1: 2 fields: x", document.Position{Line: 1, Column: 1}, "", "2 fields: x"},
		{"node facts missing", document.Position{}, "", "node facts missing"},
	}
	for _, tt := range tests {
		if at, field, rest := p.Split(tt.text); at != tt.at || field != tt.field || rest != tt.rest {
			t.Errorf("%s: %v %q %q", tt.text, at, field, rest)
		}
	}
}
