// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Block
	}{
		{"empty", "", nil},
		{"kubeadm", ".:53 {\n  errors # all\n  health {\n    lameduck 5s\n  }\n  forward . /etc/resolv.conf\n}\n", []Block{
			{1, []string{".:53"}, []Directive{
				{2, "errors", nil, nil},
				{3, "health", nil, []Directive{{4, "lameduck", []string{"5s"}, nil}}},
				{6, "forward", []string{".", "/etc/resolv.conf"}, nil},
			}},
		}},
		{"without braces", "\ufeff.\nerrors\nlog . {\n  class error\n}\n", []Block{
			{1, []string{"."}, []Directive{
				{2, "errors", nil, nil},
				{3, "log", []string{"."}, []Directive{{4, "class", []string{"error"}, nil}}},
			}},
		}},
		{"keys", "Corp.example,\n  10.0.0.0/8\n{\n}\n}\n", []Block{
			{1, []string{"corp.example", "10.0.0.0/8"}, nil}, {5, []string{"}"}, nil},
		}},
		{"snippet and import", "(a) {\n  errors\n}\nimport custom/*.server\n. {\n  import a\n  import b\n}\n", []Block{
			{5, []string{"."}, []Directive{{2, "errors", nil, nil}, {7, "import", []string{"b"}, nil}}},
		}},
		{"quotes", ". {\n  template IN A {\n    answer \"a # \\\"b\\n { \"\n  }\n}\n", []Block{
			{1, []string{"."}, []Directive{
				{2, "template", []string{"IN", "A"}, []Directive{{3, "answer", []string{"a # \"b\\n { "}, nil}}},
			}},
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

// corefileTest is an element of testdata/corefiles.json: a change of kubeadm's Corefile, and whether CoreDNS v1.15.0
// accepts it, as caddy.ValidateAndExecuteDirectives reports.
type corefileTest struct {
	Line    int      `json:"line"`   // where lines are removed
	Remove  int      `json:"remove"` // how many
	Add     []string `json:"add"`    // lines
	Refused bool     `json:"refused"`
}

// TestRefused: what CoreDNS refuses is an error, and what it accepts is not.
func TestRefused(t *testing.T) {
	text, err := os.ReadFile("testdata/corefiles.json")
	if err != nil {
		t.Fatal(err)
	}
	var tests []corefileTest
	if err := json.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	bad, missed := 0, 0
	s := snapshotOf(t, healthy(t))
	i := slices.IndexFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == "coredns" })
	base := strings.Split(strings.TrimSpace(s.ConfigMaps[i].Data["Corefile"])+"\n", "\n")
	for _, tt := range tests {
		text := strings.Join(slices.Replace(slices.Clone(base), tt.Line-1, tt.Line-1+tt.Remove, tt.Add...), "\n")
		s.ConfigMaps[i].Data = map[string]string{"Corefile": text}
		found := slices.Contains(codes(Run(t.Context(), s)), "corefile-refused")
		if found && !tt.Refused {
			t.Errorf("CoreDNS accepts\n%s", text)
		}
		if tt.Refused {
			bad++
			if !found {
				missed++
				t.Logf("CoreDNS refuses\n%s", text)
			}
		}
	}
	if bad < 130 || missed > 7 {
		t.Errorf("%d of %d are not found", missed, bad)
	}
	started := metav1.Now()
	s.ConfigMaps[i].Data, s.ConfigMaps[i].CreationTimestamp = map[string]string{"Corefile": ". {\n  erorrs\n}\n"}, metav1.Unix(1, 0)
	for i := range s.Pods {
		s.Pods[i].Status.StartTime = &started
	}
	if got := codes(Run(t.Context(), s)); slices.Contains(got, "corefile-refused") {
		t.Errorf("a ready pod started after the last change: %q", got)
	}
}

// FuzzParse: no text panics, every block and directive has the line where it is, and a problem is a finding.
func FuzzParse(f *testing.F) {
	f.Add(".:53 {\n  errors\n  kubernetes cluster.local in-addr.arpa {\n    pods verified\n  }\n  " +
		"forward . /etc/resolv.conf 192.0.2.1:53 tls://[::1]%a {\n    max_concurrent 1000\n  }\n  cache 30\n  loop\n}\n")
	f.Add("10.0.0.0/8 example.:53 {\n  hosts {\n  }\n  template\n  rewrite name exact a b\n  forward\n  kubernetes\n  import x\n}\n")
	f.Add("a,\nb {\n\"\\\"\" {\n}}\n{ } # }")
	s := snapshotOf(f, healthy(f))
	i := slices.IndexFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == "coredns" })
	f.Fuzz(func(t *testing.T, text string) {
		blocks, problems := Parse(text)
		lines := strings.Count(text, "\n") + 1
		for _, b := range blocks {
			checkLines(t, b.Directives, lines)
			if len(b.Keys) == 0 || b.Line < 1 || b.Line > lines {
				t.Errorf("%+v", b)
			}
		}
		s.ConfigMaps[i].Data = map[string]string{"Corefile": text}
		found := slices.ContainsFunc(Run(t.Context(), s).Findings, func(f v1alpha1.DoctorFinding) bool {
			return f.Code == "corefile-refused"
		})
		if len(problems) > 0 && !found {
			t.Errorf("%q: problems %v", text, problems)
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
