// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

func TestPositions_Of(t *testing.T) {
	const text = `# a comment
apiVersion: v1
metadata:
  annotations:
    dnsconfigurer.dev/policy: None
spec: &spec
  dnsConfig:
    options:
    - name: ndots
      value: "2"
    - {name: timeout,
       value: "1"}
other: *spec
`
	positions := document.NewPositions([]byte(text))
	for _, tt := range []struct {
		path   string
		line   int
		column int
	}{
		{"", 2, 1},
		{"spec", 6, 1},
		{"spec.dnsConfig.options[0].value", 10, 7},
		{"spec.dnsConfig.options[1]", 11, 7},
		{"spec.dnsConfig.options[1].value", 12, 8},
		{"spec.dnsConfig.options[2].value", 8, 5}, // the closest existing parent
		{"spec.dnsConfig.searches[0]", 7, 3},
		{"metadata.annotations[dnsconfigurer.dev/policy]", 5, 5},
		{"metadata.name", 3, 1},
		{"other.dnsConfig.options", 8, 5}, // through an alias to its anchor
		{"nowhere", 2, 1},
	} {
		if got, want := positions.Of(tt.path), (document.Position{Line: tt.line, Column: tt.column}); got != want {
			t.Errorf("Of(%q) = %v, want %v: %q", tt.path, got, want, strings.Split(text, "\n")[tt.line-1])
		}
	}
	if got := document.NewPositions([]byte("{\n\"spec\": {\n\"ä\": [1, 2,\n 3]}}")).Of(
		"spec.ä[2]"); got != (document.Position{Line: 4, Column: 2}) {
		t.Errorf("JSON: %v, want 4:2", got)
	}
	if got := document.NewPositions([]byte("a: [")).Of("a"); got != (document.Position{Line: 1, Column: 1}) {
		t.Errorf("invalid YAML: %v, want 1:1", got)
	}
}

func FuzzPositions(f *testing.F) {
	f.Add("spec:\n  a: [1, 2]\n", "spec.a[1]")
	f.Add("a: &x {b: *x}", `a.b["b"].b[`)
	f.Fuzz(func(t *testing.T, text, path string) {
		got := document.NewPositions([]byte(text)).Of(path)
		if got.Line < 1 || got.Line > len(text)+1 || got.Column < 1 || got.Column > len(text)+1 { // in YAML a NEL ends a line, too
			t.Errorf("%v of %q", got, text)
		}
	})
}
