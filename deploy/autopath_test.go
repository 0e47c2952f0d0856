// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestAutopath_Objects checks what the API server does not validate. The expressions are tested
// in test/apiserver.
func TestAutopath_Objects(t *testing.T) {
	objects := decode(t, "autopath", 2)
	mutating := the[*admissionv1.MutatingAdmissionPolicy](t, objects, "")
	binding := the[*admissionv1.MutatingAdmissionPolicyBinding](t, objects, "")
	if binding.Spec.PolicyName != mutating.Name {
		t.Errorf("the binding is to %s, the policy is %s", binding.Spec.PolicyName, mutating.Name)
	}
	if *mutating.Spec.FailurePolicy != admissionv1.Ignore {
		t.Error("a failing expression would reject every pod")
	}
	var resources []string
	for _, rule := range mutating.Spec.MatchConstraints.ResourceRules {
		resources = append(resources, rule.Resources...)
		if !slices.Equal(rule.Operations, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}) {
			t.Errorf("%v: %v", rule.Resources, rule.Operations)
		}
	}
	slices.Sort(resources)
	// The kinds that `dnsconfigurer render` reads, without subresources.
	want := []string{"cronjobs", "daemonsets", "deployments", "jobs", "pods", "podtemplates",
		"replicasets", "replicationcontrollers", "statefulsets"}
	if !slices.Equal(resources, want) {
		t.Errorf("resources %v, want %v", resources, want)
	}
	expression := mutating.Spec.Mutations[0].JSONPatch.Expression
	for _, text := range []string{
		"'" + policy.OverrideAnnotation + "' in variables.annotations",
		"/" + strings.ReplaceAll(policy.OverrideAnnotation, "/", "~1") + "', value: '" + string(policy.ClusterFirstWithAutopath) + "'",
		"/spec/dnsPolicy', value: '" + string(policy.ClusterFirstWithHostNet) + "'",
		"[?'" + policy.OverrideAnnotation + "'].orValue('') != '" + string(policy.ClusterFirstWithAutopath) + "'",
	} {
		if !strings.Contains(expression, text) {
			t.Errorf("the patch has no %s", text)
		}
	}
}
