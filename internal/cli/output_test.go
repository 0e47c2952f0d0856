// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v2/sarif"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// workload returns the only pod of a manifest.
func workload(t *testing.T) kube.Workload {
	t.Helper()
	m := must.Get(kube.ParseManifest("f.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  hostname: a\n")))(t)
	return m.Workloads[0]
}

func TestWriteError_JoinedErrorsWithHints(t *testing.T) {
	var out strings.Builder
	cli.WriteError(&out, errors.Join(
		&kube.InputError{Location: kube.Location{File: "f.yaml", Document: 2, Line: 7, Column: 3, Field: "spec.x"},
			Err: errors.New("is bad"), Hint: "correct it"},
		errors.Join(errors.New("first"), errors.New("second"))))
	want := "dnsconfigurer: f.yaml:7:3: spec.x: is bad\nhint: correct it\ndnsconfigurer: first\ndnsconfigurer: second\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRenderer_FindingsOnce: a finding about the node is the same for all pods.
func TestRenderer_FindingsOnce(t *testing.T) {
	var stdout, stderr strings.Builder
	r := cli.Renderer{Stdout: &stdout, Stderr: &stderr, Format: "resolv.conf"}
	d := policy.Decision{Findings: []policy.Finding{
		{Severity: policy.SeverityWarning, Field: policy.FieldResolvConf, Message: "node", Hint: "n"},
		{Severity: policy.SeverityWarning, Field: "spec.hostname", Message: "pod", Hint: "p"},
		{Severity: policy.SeverityInfo, Field: "spec.hostname", Message: "not written"},
	}}
	for range 2 {
		must.Succeed(t, r.Write(workload(t), &d))
	}
	pod := "dnsconfigurer: f.yaml:5:3: warning: Pod web: spec.hostname: pod\nhint: p\n"
	want := "dnsconfigurer: the node's resolvConf: warning: node\nhint: n\n" + pod + pod
	if diff := cmp.Diff(want, stderr.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRenderer_HostNote: the host file of this machine is not that of a node. The note is written
// once, for the first pod that gets something of it.
func TestRenderer_HostNote(t *testing.T) {
	var stdout, stderr strings.Builder
	r := cli.Renderer{Stdout: &stdout, Stderr: &stderr, Format: "json", HostNote: "this machine's"}
	pod := policy.Decision{Searches: []policy.Entry{{Text: "a.example", Source: policy.Source{Origin: policy.FromPod}}}}
	host := policy.Decision{Searches: []policy.Entry{{Text: "vpn.example", Source: policy.Source{Origin: policy.FromHost, Index: 1}}}}
	for i, d := range []*policy.Decision{&pod, &host, &host} {
		must.Succeed(t, r.Write(workload(t), d))
		if written := stderr.Len() > 0; written != (i > 0) {
			t.Errorf("pod %d: %q", i, &stderr)
		}
	}
	if want := "dnsconfigurer: note: this machine's\n"; stderr.String() != want {
		t.Errorf("%q, want %q", &stderr, want)
	}
}

func TestValidation_Annotations(t *testing.T) {
	var out strings.Builder
	v := cli.Validation{Stdout: &out, Format: "github"}
	finding := policy.Finding{Code: "c", Severity: policy.SeverityInfo, Field: "spec.hostname", Message: "100%\nof it", Hint: "h"}
	v.Verbose = true
	must.Succeed(t, v.Write(subjectOf(workload(t)), []policy.Finding{finding}))
	must.Succeed(t, v.WriteUnreadable(errors.Join(errors.New("a,b"), &kube.InputError{
		Location: kube.Location{File: "stdin", Document: 1, Field: "kind", Line: 3}, Err: errors.New("is bad"), Hint: "h",
	})))
	want := `::notice file=f.yaml,line=5,col=3,title=c::Pod web: spec.hostname: 100%25\nof it%0Ahint: h
::error title=unreadable::a,b
::error title=unreadable::kind: is bad%0Ahint: h
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// failing is a Writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// writeAll writes findings to a file that is full.
func writeAll(t *testing.T, format string, findings []policy.Finding) error {
	v := cli.Validation{Stdout: failing{}, Format: format}
	return errors.Join(v.Write(subjectOf(workload(t)), findings), v.Close())
}

func TestWrite_Errors(t *testing.T) {
	findings := []policy.Finding{{Severity: policy.SeverityError, Message: "m"}}
	for _, format := range []string{"text", "json", "github", "sarif"} {
		if err := writeAll(t, format, findings); fmt.Sprint(err) != "disk full" {
			t.Errorf("Validation %s: %v", format, err)
		}
	}
	for _, format := range []string{"resolv.conf", "json", "explain"} {
		r := cli.Renderer{Stdout: failing{}, Stderr: new(strings.Builder), Format: format}
		if err := r.Write(workload(t), &policy.Decision{}); fmt.Sprint(err) != "disk full" {
			t.Errorf("Renderer %s: %v", format, err)
		}
	}
}

// hostile are texts that an author of a manifest may write into a name or a value.
var hostile = []string{
	"a\x1b[2J\x1b]0;title\x07b",
	"a\n::set-env name=PATH::b",
	"::add-mask::a",
	"a\r::error file=x::b",
	"a,line=9::b%0A::c",
	"\u202eabc\u2066",
	"a\u2028b\u0085c",
	"\x9b31m\xff\xfe",
	`"},{"a`,
	"../../a b#c?d",
}

// writeHostile writes a finding and an error with a hostile text in every place that has one.
func writeHostile(t *testing.T, format, text string) string {
	t.Helper()
	js, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "a", "annotations": map[string]string{text: text}}, "spec": map[string]string{"hostname": text},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := must.Get(kube.ParseManifest(text, js))(t)
	var out strings.Builder
	v := cli.Validation{Stdout: &out, Format: format, Verbose: true, Version: "1"}
	for _, s := range []policy.Severity{policy.SeverityError, policy.SeverityWarning, policy.SeverityInfo} {
		f := policy.Finding{Code: "c", Severity: s, Field: "spec.hostname" + text, Message: text, Hint: text}
		must.Succeed(t, v.Write(subjectOf(m.Workloads[0]), []policy.Finding{f}))
	}
	invalid := &kube.InputError{Location: kube.Location{File: text, Line: 1, Field: text, Source: text}, Err: errors.New(text), Hint: text}
	must.Succeed(t, errors.Join(v.WriteUnreadable(errors.Join(invalid, errors.New(text))), v.Close()))
	return out.String()
}

// TestValidation_Hostile: no text of a manifest adds a line to the output, changes a terminal
// or ends a part of a workflow command.
func TestValidation_Hostile(t *testing.T) {
	plain := map[string]int{}
	for _, format := range []string{"text", "json", "github", "sarif"} {
		plain[format] = strings.Count(writeHostile(t, format, "plain"), "\n")
		for _, text := range hostile {
			got := writeHostile(t, format, text)
			if n := strings.Count(got, "\n"); n != plain[format] {
				t.Errorf("%s: %q: %d lines, want %d:\n%s", format, text, n, plain[format], got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 && format != "json" {
				t.Errorf("%s: %q: unprintable character in %q", format, text, got[i:])
			}
			for line := range strings.Lines(got) {
				command := strings.HasPrefix(line, "::error ") || strings.HasPrefix(line, "::warning ") ||
					strings.HasPrefix(line, "::notice ")
				if strings.HasPrefix(line, "::") && (format != "github" || !command) ||
					strings.Count(line, "line=") > 1 && format == "github" && !strings.Contains(text, "line=") {
					t.Errorf("%s: %q: a command: %s", format, text, line)
				}
			}
		}
	}
	var out strings.Builder
	cli.WriteError(&out, errors.New(strings.Join(hostile, "")))
	if strings.Count(out.String(), "\n") != 1 || strings.ContainsAny(out.String(), "\x1b\x07\r") {
		t.Errorf("%q", out.String())
	}
}

// TestValidation_GitHubProperties: a text does not get out of its property.
func TestValidation_GitHubProperties(t *testing.T) {
	for line := range strings.Lines(writeHostile(t, "github", "a,line=9::b%0A::c")) {
		_, properties, _ := strings.Cut(line, " ")
		properties, _, _ = strings.Cut(properties, "::")
		for p := range strings.SplitSeq(properties, ",") {
			name, value, _ := strings.Cut(p, "=")
			want := map[string]string{"file": "a%2Cline=9%3A%3Ab%250A%3A%3Ac", "line": "1", "col": value, "title": value}[name]
			if value != want {
				t.Errorf("%s is %q, want %q", name, value, want)
			}
		}
	}
}

// TestValidation_SARIF: the log has only properties of SARIF 2.1.0, and those that are required.
func TestValidation_SARIF(t *testing.T) {
	for _, text := range append(hostile, "deploy/web.yaml", "/abs/web.yaml") {
		written := writeHostile(t, "sarif", text)
		report, err := sarif.FromString(written)
		if err != nil {
			t.Fatalf("%q: %v\n%s", text, err, written)
		}
		checkSARIF(t, report)
		var logged, known any
		again, err := json.Marshal(report)
		must.Succeed(t, errors.Join(err, json.Unmarshal([]byte(written), &logged), json.Unmarshal(again, &known)))
		checkSubset(t, "", logged, known)
	}
	var empty strings.Builder
	must.Succeed(t, (&cli.Validation{Stdout: &empty, Format: "sarif"}).Close())
	if report, err := sarif.FromString(empty.String()); err != nil || report.Runs[0].Results == nil {
		t.Errorf("without findings: %v, %s", err, empty.String())
	}
}

// checkSARIF checks what SARIF 2.1.0 requires of the properties that are written: 3.13.2, 3.19.8,
// 3.27.10, 3.11.8, 3.30.5, 3.4.3 (docs.oasis-open.org/sarif/sarif/v2.1.0).
func checkSARIF(t *testing.T, report *sarif.Report) {
	t.Helper()
	if report.Version != "2.1.0" || len(report.Runs) != 1 || report.Runs[0].Tool.Driver.Name == "" {
		t.Fatalf("version %q, %d runs, want one run with a tool", report.Version, len(report.Runs))
	}
	for _, r := range report.Runs[0].Results {
		if !slices.Contains([]string{"none", "note", "warning", "error"}, *r.Level) {
			t.Errorf("level is %q", *r.Level)
		}
		if r.Message.Text == nil || *r.Message.Text == "" {
			t.Errorf("result %s has no message", *r.RuleID)
		}
		for _, l := range r.Locations {
			if _, err := url.Parse(*l.PhysicalLocation.ArtifactLocation.URI); err != nil {
				t.Errorf("result %s: %v", *r.RuleID, err)
			}
			if region := l.PhysicalLocation.Region; region != nil && (*region.StartLine < 1 || *region.StartColumn < 1) {
				t.Errorf("line %d, column %d, want numbers from 1", *region.StartLine, *region.StartColumn)
			}
		}
	}
}

// checkSubset fails the test if all does not have a value of part: the library drops the
// properties that the schema does not have.
func checkSubset(t *testing.T, path string, part, all any) {
	t.Helper()
	switch part := part.(type) {
	case map[string]any:
		object, _ := all.(map[string]any)
		for key, value := range part {
			checkSubset(t, path+"."+key, value, object[key])
		}
	case []any:
		list, _ := all.([]any)
		if len(list) != len(part) {
			t.Fatalf("%s has %d values in the log, %d are known", path, len(part), len(list))
		}
		for i, value := range part {
			checkSubset(t, path, value, list[i])
		}
	default:
		if part != all {
			t.Errorf("%s is %v in the log, %v is known", path, part, all)
		}
	}
}

func subjectOf(w kube.Workload) cli.Subject {
	return cli.Subject{Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Name, At: w.At}
}
