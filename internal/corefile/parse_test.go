// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Block
	}{
		{"empty", "", nil},
		{"kubeadm", ".:53 {\n  errors # all\n  health {\n    lameduck 5s\n  }\n  forward . /etc/resolv.conf\n}\n", []Block{
			{1, []string{".:53"}, []Directive{
				{2, "errors", nil, nil, ""},
				{3, "health", nil, []Directive{{4, "lameduck", []string{"5s"}, nil, ""}}, ""},
				{6, "forward", []string{".", "/etc/resolv.conf"}, nil, ""},
			}, ""},
		}},
		{"without braces", "\ufeff.\nerrors\nlog . {\n  class error\n}\n", []Block{
			{1, []string{"."}, []Directive{
				{2, "errors", nil, nil, ""},
				{3, "log", []string{"."}, []Directive{{4, "class", []string{"error"}, nil, ""}}, ""},
			}, ""},
		}},
		{"keys", "Corp.example,\n  10.0.0.0/8\n{\n}\n}\n", []Block{
			{1, []string{"corp.example", "10.0.0.0/8"}, nil, ""}, {5, []string{"}"}, nil, ""},
		}},
		{"snippet and import", "(a) {\n  errors\n}\nimport custom/*.server\n. {\n  import a\n  import b\n}\n", []Block{
			{5, []string{"."}, []Directive{{2, "errors", nil, nil, ""}, {7, "import", []string{"b"}, nil, ""}}, ""},
		}},
		{"quotes", ". {\n  template IN A {\n    answer \"a # \\\"b\\n { \"\n  }\n}\n", []Block{
			{1, []string{"."}, []Directive{
				{2, "template", []string{"IN", "A"}, []Directive{{3, "answer", []string{"a # \"b\\n { "}, nil, ""}}, ""},
			}, ""},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := Parse(tt.text)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" || problems != nil {
				t.Errorf("(-want +got)\n%s%v", diff, problems)
			}
		})
	}
}

func TestParse_Problems(t *testing.T) {
	snippets := "(a) {\n" + strings.Repeat("errors\n", 1000) + "}\n. {\n" + strings.Repeat("import a\n", 1000) + "}\n"
	if blocks, _ := Parse(snippets); len(blocks[0].Directives) > maxWords+1000 {
		t.Errorf("%d directives", len(blocks[0].Directives))
	}
	tests := []struct {
		name, text, want string
		line             int
	}{
		{"not closed", ".:53 {\n  errors\n", "not closed", 1},
		{"inner not closed", ".:53 {\n  health {\n    lameduck 5s\n}\n", "not closed", 1},
		{"on one line", ".:53 {\n  health { lameduck 5s }\n}\n", "not on a line of its own", 2},
		{"without a zone", "{\n errors\n}\n", "without a zone", 1},
		{"nested", ". {\n" + strings.Repeat("a {\n", 20), "too deeply", 9},
		{"words", strings.Repeat("a ", maxWords+1), "too many words", 1},
		{"long", strings.Repeat("a", maxText+1), "the limit", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := Parse(tt.text)
			if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Line == tt.line && strings.Contains(p.Message, tt.want) }) {
				t.Errorf("%v, want %q in line %d", problems, tt.want, tt.line)
			}
		})
	}
}

func TestSplitKey(t *testing.T) {
	for key, want := range map[string][2]string{
		".": {".", "53"}, ".:1053": {".", "1053"}, "corp.example.:53": {"corp.example.", "53"}, "tls://.": {".", "853"},
		"https://corp.example": {"corp.example.", "443"}, "dns://.:5353": {".", "5353"}, "10.0.0.0/8": {"10.0.0.0/8.", "53"},
	} {
		if zone, port := SplitKey(key); zone != want[0] || port != want[1] {
			t.Errorf("%s: %s, %s, want %v", key, zone, port, want)
		}
	}
}

// FuzzParse: no text panics, and every block and directive has the line where it is.
func FuzzParse(f *testing.F) {
	f.Add(".:53 {\n  errors\n  kubernetes cluster.local in-addr.arpa {\n    pods verified\n  }\n  import a*\n  cache {$X}\n}\n")
	f.Add("a,\nb {\n\"\\\"\" {\n}}\n{ } # }")
	f.Fuzz(func(t *testing.T, text string) {
		s := Source{
			Import:   func(string, string) ([]File, error) { return []File{{"a", text}, {"b", text}}, nil },
			Variable: func(name string) (string, bool) { return name, name != "" },
		}
		blocks, _ := s.Parse(File{"c", text})
		lines := strings.Count(text, "\n") + 1
		for _, b := range blocks {
			checkLines(t, b.Directives, lines)
			if len(b.Keys) == 0 || b.Line < 1 || b.Line > lines {
				t.Errorf("%+v", b)
			}
		}
	})
}

func checkLines(t *testing.T, directives []Directive, lines int) {
	for _, d := range directives {
		if d.Line < 1 || d.Line > lines {
			t.Errorf("%+v", d)
		}
		checkLines(t, d.Body, lines)
	}
}
