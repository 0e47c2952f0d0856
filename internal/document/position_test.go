// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"bytes"
	"encoding/binary"
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

// TestLiteral checks that a value has the same position in a literal block and in its document.
func TestLiteral(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string // "": not a literal block
	}{
		{"a block", "kind: ConfigMap\ndata:\n  a.yaml: |\n    x: 1\n\n    y: 2\n  b: c\n", "\n\n\n    x: 1\n\n    y: 2\n"},
		{"chomped", "data:\n  a.yaml: |-\n    x: 1", "\n\n    x: 1\n"},
		{"kept", "data:\n  a.yaml: |+\n    x: 1\n\n\n", "\n\n    x: 1\n"},
		{"deeper lines", "data:\n  a.yaml: |\n    x:\n      y: 1\n", "\n\n    x:\n      y: 1\n"},
		{"Windows line endings", "data:\r\n  a.yaml: |\r\n    x: 1\r\n    y: 2\r\n", "\n\n    x: 1\r\n    y: 2\r\n"},
		{"empty", "data:\n  a.yaml: |\n", "\n\n\n"},
		{"quoted", `data: {a.yaml: "x: 1\n"}`, ""},
		{"folded", "data:\n  a.yaml: >\n    x: 1\n", ""},
		{"a separator", "data:\n  a.yaml: |\n    ---\n    x: 1\n", ""},
		{"a mapping", "data:\n  a.yaml: {x: 1}\n", ""},
		{"missing", "data:\n  b.yaml: |\n    x: 1\n", ""},
		{"not YAML", "data: [", ""},
		{"line separators", "# \u2028\u2028\u2028\u2029\ndata:\n  a.yaml: |\n    x: 1\n", ""},
		{"next lines", "#\u0085\u0085\u0085\u0085\ndata:\n  a.yaml: |\n    x: 1\n", ""},
		{"UTF-16", utf16("# \u2028\u2028\u2028\u2028\ndata:\n  a.yaml: |\n    x: 1\n"), ""},
		{"Macintosh line endings", "data:\r  a.yaml: |\r    x: 1\r", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := document.NewPositions([]byte(tt.text)).Literal(`data["a.yaml"]`)
			if string(got) != tt.want || ok != (tt.want != "") {
				t.Errorf("%q, %t, want %q", got, ok, tt.want)
			}
		})
	}
}

// utf16 returns text, which has no characters beyond U+FFFF, with a byte order mark.
func utf16(text string) string {
	b := []byte("\xff\xfe")
	for _, r := range text {
		b = binary.LittleEndian.AppendUint16(b, uint16(r))
	}
	return string(b)
}

// FuzzLiteral checks that Literal accepts any text, and that its result has the lines of the document.
func FuzzLiteral(f *testing.F) {
	f.Add("data:\n  a.yaml: |\n    x: 1\n")
	f.Add("#\u0085\u2028\r\ndata:\n  a.yaml: |\n    x: 1\n")
	f.Add("data:\n  a.yaml: |2\n     x: 1\n\n   \n")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := document.NewPositions([]byte(text)).Literal(`data["a.yaml"]`)
		if ok && bytes.Count(got, []byte("\n")) > bytes.Count([]byte(text), []byte("\n"))+1 {
			t.Errorf("%q has more lines than %q", got, text)
		}
	})
}
