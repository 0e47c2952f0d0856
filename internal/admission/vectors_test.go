// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestVectors compares the findings and the verdict for each vector.
func TestVectors(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	for _, v := range table {
		t.Run(v.Name, func(t *testing.T) {
			o := object(t, v)
			findings := vectors.Check(t, v.Node.Rules(t), o)
			if diff := cmp.Diff(v.Findings, vectorFindings(t, findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			refused := slices.ContainsFunc(findings, func(f policy.Finding) bool {
				return f.EnforcedBy == policy.EnforcedByAPIServer && f.Severity != policy.SeverityWarning &&
					f.Code != admission.CodeGeneratedHostname && f.Code != admission.CodeStatefulSetName
			})
			if refused && v.APIServer != "refuses" {
				t.Errorf("a finding is enforced by the API server, which %s the object", v.APIServer)
			}
			verdict := admission.NewVerdict(o, findings)
			if got := verb(verdict); got != v.Admission && v.APIServer != "refuses" {
				t.Errorf("admission %s, want %s: %+v", got, v.Admission, verdict)
			}
		})
	}
}

// vectorFindings returns findings in the form of the vectors, without those of severity
// info.
func vectorFindings(t *testing.T, findings []policy.Finding) []vectors.Finding {
	t.Helper()
	var list []vectors.Finding
	for _, f := range findings {
		if f.Reason != "" || f.Hint == "" {
			t.Errorf("%s has reason %q, hint %q", f.Code, f.Reason, f.Hint)
		}
		if f.Severity != policy.SeverityInfo {
			list = append(list, vectors.Finding{
				Code: string(f.Code), Severity: string(f.Severity), EnforcedBy: string(f.EnforcedBy),
				Field: f.Field, Message: f.Message, Hint: f.Hint,
			})
		}
	}
	return list
}

// verb returns the verdict as in the vectors.
func verb(v admission.Verdict) string {
	switch {
	case v.Denied != "":
		return "denies"
	case v.Warnings != nil:
		return "warns"
	default:
		return "allows"
	}
}

func object(t testing.TB, v vectors.Vector) admission.Object {
	t.Helper()
	m, err := kube.ParseManifest(v.Name, v.Object)
	if err != nil || len(m.Workloads) != 1 {
		t.Fatalf("%d workloads, %v", len(m.Workloads), err)
	}
	o := cli.AdmissionObject(m.Workloads[0], "")
	o.Operation = admission.Operation(v.Operation)
	return o
}

// TestRules_Unknown: without a value of the cluster, the findings that depend on it are left
// out, and all others stay.
func TestRules_Unknown(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	aboutDomain := func(f policy.Finding) bool {
		return f.Code == policy.CodeFQDNTooLong || f.Code == admission.CodeOrdinalLimit && strings.Contains(f.Message, "FQDN")
	}
	aboutServers := func(f policy.Finding) bool {
		return f.Code == policy.CodeServerLimit || f.Code == policy.CodeForeignNameserver
	}
	left := 0
	for _, v := range table {
		if v.Node.ResolvConf != nil { // the host's nameservers count with an unknown cluster DNS, too
			continue
		}
		o, rules := object(t, v), v.Node.Rules(t)
		for _, u := range []admission.Unknown{{}, {ClusterDomain: true}, {ClusterDNS: true}, {ClusterDomain: true, ClusterDNS: true}} {
			want := slices.DeleteFunc(vectors.Check(t, rules, o), func(f policy.Finding) bool {
				leave := u.ClusterDomain && aboutDomain(f) || u.ClusterDNS && aboutServers(f)
				if leave {
					left++
				}
				return leave
			})
			if diff := cmp.Diff(want, vectors.Check(t, rules.WithUnknown(u), o), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %+v: (-want +got)\n%s", v.Name, u, diff)
			}
		}
	}
	if left < 20 {
		t.Errorf("only %d findings depend on the values", left)
	}
}
