// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestRun_PolicyUnbound: each policy of dnsconfigurer without any binding is found. A policy with some of its
// bindings is not: docs/checks.md lets the user leave out a binding.
func TestRun_PolicyUnbound(t *testing.T) {
	const failures, warnings = "ValidatingAdmissionPolicy dnsconfigurer-errors", "ValidatingAdmissionPolicy dnsconfigurer-warnings"
	for _, tt := range []struct {
		name     string
		bindings []string // names of policies
		want     []string
	}{
		{"all", []string{"dnsconfigurer-errors", "dnsconfigurer-errors", "dnsconfigurer-warnings"}, nil},
		{"one of several is missing", []string{"dnsconfigurer-errors", "dnsconfigurer-warnings"}, nil},
		{"those of one policy are missing", []string{"dnsconfigurer-warnings", "dnsconfigurer-warnings"}, []string{failures}},
		{"only another policy has one", []string{"example"}, []string{failures, warnings}},
		{"none", nil, []string{failures, warnings}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := snapshotOf(t, healthy(t))
			s.Policies, s.Bindings = nil, nil
			for _, name := range []string{"dnsconfigurer-errors", "dnsconfigurer-warnings", "example"} {
				p := admissionv1.ValidatingAdmissionPolicy{}
				p.Name = name
				s.Policies = append(s.Policies, p)
			}
			for _, policy := range tt.bindings {
				s.Bindings = append(s.Bindings, admissionv1.ValidatingAdmissionPolicyBinding{
					Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy}})
			}
			var got []string
			for _, f := range Run(t.Context(), s).Findings {
				if f.Code == "admission-skipped" {
					got = append(got, f.Object)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
