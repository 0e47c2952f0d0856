// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

func TestLines_Of(t *testing.T) {
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
	lines := document.NewLines([]byte(text))
	for _, tt := range []struct {
		path string
		want int
	}{
		{"", 2},
		{"spec", 6},
		{"spec.dnsConfig.options[0].value", 10},
		{"spec.dnsConfig.options[1]", 11},
		{"spec.dnsConfig.options[1].value", 12},
		{"spec.dnsConfig.options[2].value", 8}, // the closest existing parent
		{"spec.dnsConfig.searches[0]", 7},
		{"metadata.annotations[dnsconfigurer.dev/policy]", 5},
		{"metadata.name", 3},
		{"other.dnsConfig.options", 8}, // through an alias to its anchor
		{"nowhere", 2},
	} {
		if got := lines.Of(tt.path); got != tt.want {
			t.Errorf("Of(%q) = %d, want %d: %q", tt.path, got, tt.want, strings.Split(text, "\n")[tt.want-1])
		}
	}
	if got := document.NewLines([]byte("{\n\"spec\": {\n\"a\": [1,\n2]}}")).Of("spec.a[1]"); got != 4 {
		t.Errorf("JSON: line %d, want 4", got)
	}
	if got := document.NewLines([]byte("a: [")).Of("a"); got != 1 {
		t.Errorf("invalid YAML: line %d, want 1", got)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("spec:\n  a: [1, 2]\n", "spec.a[1]")
	f.Add("a: &x {b: *x}", `a.b["b"].b[`)
	f.Fuzz(func(t *testing.T, text, path string) {
		if got := document.NewLines([]byte(text)).Of(path); got < 1 || got > len(text)+1 { // in YAML a NEL ends a line, too
			t.Errorf("line %d of %q", got, text)
		}
	})
}
