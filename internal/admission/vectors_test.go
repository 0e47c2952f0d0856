// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestVectors: the table says what is found, and what an admission server does.
func TestVectors(t *testing.T) {
	table, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range table {
		t.Run(v.Name, func(t *testing.T) {
			rules := v.Node.Rules(t)
			var got []vectors.Finding
			o := object(t, v)
			found := rules.Check(o)
			refused := false
			for _, f := range found {
				refused = refused || f.EnforcedBy == policy.EnforcedByAPIServer && f.Severity != policy.SeverityWarning && f.Code != admission.CodeGeneratedHostname
				if f.Reason != "" || f.Hint == "" {
					t.Errorf("%s has reason %q, hint %q", f.Code, f.Reason, f.Hint)
				}
				if f.Severity == policy.SeverityInfo {
					continue
				}
				got = append(got, vectors.Finding{
					Code: string(f.Code), Severity: string(f.Severity), EnforcedBy: string(f.EnforcedBy), Field: f.Field, Message: f.Message, Hint: f.Hint,
				})
			}
			if diff := cmp.Diff(v.Findings, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if refused && v.APIServer != "refuses" {
				t.Errorf("something is found that the API server refuses, and it %s", v.APIServer)
			}
			verdict := admission.NewVerdict(o, found)
			did := "allows"
			switch {
			case verdict.Denied != "":
				did = "denies"
			case verdict.Warnings != nil:
				did = "warns"
			}
			if did != v.Admission && v.APIServer != "refuses" {
				t.Errorf("admission %s, want %s: %+v", did, v.Admission, verdict)
			}
		})
	}
}

// TestDocs: every code that can be found is documented. Two are not in the table: one is
// an info, the other needs several objects.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{string(admission.CodeAutopathNeeds): true, string(admission.CodeHostnameCollision): true}
	for _, v := range table {
		for _, f := range v.Findings {
			codes[f.Code] = true
		}
	}
	for code := range codes {
		if !strings.Contains(string(text), "| `"+code+"` |") {
			t.Errorf("docs/admission.md has no row for %s", code)
		}
	}
}

func object(t testing.TB, v vectors.Vector) admission.Object {
	t.Helper()
	m, err := kube.ParseManifest(v.Name, v.Object)
	if err != nil || len(m.Workloads) != 1 {
		t.Fatalf("%d workloads, %v", len(m.Workloads), err)
	}
	o := objectOf(m.Workloads[0])
	o.Operation = admission.Operation(v.Operation)
	return o
}

func objectOf(w kube.Workload) admission.Object {
	pod := kube.FromPod(w.Pod)
	pod.Path = w.Path
	return admission.Object{Kind: w.Kind, Name: w.Name, Pod: pod, Ordinal: w.Ordinals.Base != ""}
}
