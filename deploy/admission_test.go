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

// TestAdmission has what the API server would not notice. What the policies say is in
// test/apiserver and test/cluster.
func TestAdmission(t *testing.T) {
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
			t.Errorf("a %T", object)
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
	sameVariables(t, policies["dnsconfigurer-errors"], policies["dnsconfigurer-warnings"])
}

func checkPolicy(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	if *p.Spec.FailurePolicy != admissionv1.Ignore {
		t.Errorf("%s: an expression that fails would stop every pod", p.Name)
	}
	if s := p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0]; !slices.Contains(s.Values, "kube-system") {
		t.Errorf("%s: kube-system is looked at", p.Name)
	}
	for _, v := range p.Spec.Validations {
		if v.Message == "" || v.MessageExpression == "" { // the message is for when the expression fails
			t.Errorf("%s: no message: %s", p.Name, v.Expression)
		}
	}
}

// checkBinding: pods are denied for an error; else there are warnings.
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

// sameVariables: what the policies have in common is written twice, for a policy cannot
// use the variables of another.
func sameVariables(t *testing.T, a, b *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	if diff := cmp.Diff(a.Spec.MatchConstraints, b.Spec.MatchConstraints); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.Spec.MatchConditions, b.Spec.MatchConditions); diff != "" {
		t.Error(diff)
	}
	of := map[string]string{}
	for _, v := range a.Spec.Variables {
		of[v.Name] = v.Expression
	}
	for _, v := range b.Spec.Variables {
		if expression, both := of[v.Name]; both && expression != v.Expression {
			t.Errorf("variable %s is %s in one policy and %s in the other", v.Name, expression, v.Expression)
		}
	}
	for _, p := range []*admissionv1.ValidatingAdmissionPolicy{a, b} {
		text := ""
		for _, v := range p.Spec.Validations {
			text += v.Expression + "\n" + v.MessageExpression + "\n"
		}
		for _, v := range p.Spec.Variables {
			text += v.Expression + "\n"
		}
		for _, v := range p.Spec.Variables {
			if !regexp.MustCompile(`variables\.` + v.Name + `\b`).MatchString(text) {
				t.Errorf("%s: nobody uses the variable %s", p.Name, v.Name)
			}
		}
	}
}

// TestAdmissionCodes: above each rule stands its code, for who looks for it in
// docs/admission.md.
func TestAdmissionCodes(t *testing.T) {
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
				t.Errorf("%s: %s is no code of docs/admission.md", name, code[1])
			}
		}
	}
}
