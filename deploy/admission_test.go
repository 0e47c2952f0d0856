// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestAdmission_Objects checks what the API server does not validate. The expressions of the
// policies are tested in test/apiserver and test/cluster.
func TestAdmission_Objects(t *testing.T) {
	var parameters *corev1.ConfigMap
	policies := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	bindings := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range decode(t, "admission") {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			parameters = o
		case *admissionv1.ValidatingAdmissionPolicy:
			policies[o.Name] = o
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bindings[o.Name] = o
		default:
			t.Errorf("unexpected object %T", object)
		}
	}
	for _, p := range policies {
		checkPolicy(t, p)
		var bound []admissionv1.NamedRuleWithOperations
		for _, kinds := range []string{"pods", "workloads", "jobs"} {
			b := bindings[strings.Replace(p.Name, "-", "-"+kinds+"-", 1)]
			if b == nil {
				t.Fatalf("%s is not bound to %s", p.Name, kinds)
			}
			checkBinding(t, b, p, parameters)
			bound = append(bound, b.Spec.MatchResources.ResourceRules...)
		}
		if diff := cmp.Diff(p.Spec.MatchConstraints.ResourceRules, bound); diff != "" {
			t.Errorf("%s: (-policy +bindings)\n%s", p.Name, diff)
		}
	}
	if len(policies) != 2 || len(bindings) != 6 {
		t.Errorf("%d policies, %d bindings", len(policies), len(bindings))
	}
	compareCommon(t, policies["dnsconfigurer-errors"], policies["dnsconfigurer-warnings"])
}

func checkPolicy(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	if *p.Spec.FailurePolicy != admissionv1.Ignore {
		t.Errorf("%s: a failing expression would reject every pod", p.Name)
	}
	if s := p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0]; !slices.Contains(s.Values, "kube-system") {
		t.Errorf("%s: applies to kube-system", p.Name)
	}
	for _, v := range p.Spec.Validations {
		if v.Message == "" || v.MessageExpression == "" { // the message is used if the expression fails
			t.Errorf("%s: no message: %s", p.Name, v.Expression)
		}
	}
}

// checkBinding: only the errors of pods are denied, all else is a warning.
func checkBinding(t *testing.T, b *admissionv1.ValidatingAdmissionPolicyBinding, p *admissionv1.ValidatingAdmissionPolicy, parameters *corev1.ConfigMap) {
	t.Helper()
	action := admissionv1.Warn
	if b.Name == "dnsconfigurer-pods-errors" {
		action = admissionv1.Deny
	}
	want := admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName:        p.Name,
		ValidationActions: []admissionv1.ValidationAction{action},
		ParamRef:          &admissionv1.ParamRef{Name: parameters.Name, Namespace: parameters.Namespace, ParameterNotFoundAction: new(admissionv1.AllowAction)},
		MatchResources:    b.Spec.MatchResources,
	}
	if diff := cmp.Diff(want, b.Spec); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", b.Name, diff)
	}
}

// compareCommon compares the parts that both policies contain: a policy cannot use the
// variables of another.
func compareCommon(t *testing.T, a, b *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	if diff := cmp.Diff(a.Spec.MatchConstraints, b.Spec.MatchConstraints); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.Spec.MatchConditions, b.Spec.MatchConditions); diff != "" {
		t.Error(diff)
	}
	expressions := map[string]string{}
	for _, v := range a.Spec.Variables {
		expressions[v.Name] = v.Expression
	}
	for _, v := range b.Spec.Variables {
		if expression, both := expressions[v.Name]; both && expression != v.Expression {
			t.Errorf("variable %s is %s in one policy and %s in the other", v.Name, expression, v.Expression)
		}
	}
	checkVariablesUsed(t, a)
	checkVariablesUsed(t, b)
}

func checkVariablesUsed(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	text := ""
	for _, v := range p.Spec.Validations {
		text += v.Expression + "\n" + v.MessageExpression + "\n"
	}
	for _, v := range p.Spec.Variables {
		text += v.Expression + "\n"
	}
	for _, v := range p.Spec.Variables {
		if !regexp.MustCompile(`variables\.` + v.Name + `\b`).MatchString(text) {
			t.Errorf("%s: unused variable %s", p.Name, v.Name)
		}
	}
}

// TestAdmission_Codes: the comment above each rule is its code in docs/admission.md.
func TestAdmission_Codes(t *testing.T) {
	docs, err := os.ReadFile("../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"errors.yaml", "warnings.yaml"} {
		text, err := os.ReadFile("admission/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, validations, _ := strings.Cut(string(text), "\n  validations:\n")
		rules := strings.Count("\n"+validations, "\n  - ")
		codes := regexp.MustCompile(`(?m)^  # ([a-z-]+).*\n  - `).FindAllStringSubmatch(validations, -1)
		if len(codes) != rules {
			t.Errorf("%s: %d rules and %d codes", name, rules, len(codes))
		}
		for _, code := range codes {
			if !strings.Contains(string(docs), "| `"+code[1]+"` |") {
				t.Errorf("%s: docs/admission.md has no code %s", name, code[1])
			}
		}
	}
}
