// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// workload returns the only pod of a manifest.
func workload(t *testing.T) kube.Workload {
	t.Helper()
	m, err := kube.ParseManifest("f.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  hostname: a\n"))
	if err != nil {
		t.Fatal(err)
	}
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
		if err := r.Write(workload(t), &d); err != nil {
			t.Fatal(err)
		}
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
		if err := r.Write(workload(t), d); err != nil {
			t.Fatal(err)
		}
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
	if err := v.Write(subjectOf(workload(t)), []policy.Finding{finding}); err != nil {
		t.Fatal(err)
	}
	if err := v.WriteUnreadable(errors.Join(errors.New("a,b"), &kube.InputError{
		Location: kube.Location{File: "stdin", Document: 1, Field: "kind", Line: 3}, Err: errors.New("is bad"), Hint: "h",
	})); err != nil {
		t.Fatal(err)
	}
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
	for _, format := range cli.ValidateFormats {
		if err := writeAll(t, format, findings); fmt.Sprint(err) != "disk full" {
			t.Errorf("Validation %s: %v", format, err)
		}
	}
	for _, format := range cli.RenderFormats {
		r := cli.Renderer{Stdout: failing{}, Stderr: new(strings.Builder), Format: format}
		if err := r.Write(workload(t), &policy.Decision{}); fmt.Sprint(err) != "disk full" {
			t.Errorf("Renderer %s: %v", format, err)
		}
	}
}
