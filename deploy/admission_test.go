// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

var update = flag.Bool("update", false, "write deploy/admission and the files of the chart")

// TestAdmission_Rendered: the file is the output of `dnsconfigurer policies` without values.
func TestAdmission_Rendered(t *testing.T) {
	const file = "admission/policies.yaml"
	want := must.Get(admission.PolicyConfig{}.YAML())(t)
	if *update {
		must.Succeed(t, os.WriteFile(file, want, 0o644))
	}
	got := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: run go test ./deploy -update: (-rendered +file)\n%s", file, diff)
	}
	if _, err := decodeText(file, got); err != nil {
		t.Error(err)
	}
}

// renderAll returns the policies with all rules.
func renderAll(t *testing.T) []byte {
	t.Helper()
	return must.Get(admission.PolicyConfig{ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}}.YAML())(t)
}

// TestAdmission_Objects checks what the API server does not validate. The expressions of the
// policies are tested in test/apiserver and test/cluster.
func TestAdmission_Objects(t *testing.T) {
	found := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	bindings := map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}
	objects := must.Get(decodeText("policies", renderAll(t)))(t)
	for _, object := range objects {
		switch o := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			found[o.Name] = o
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			bindings[o.Name] = o
		default:
			t.Errorf("unexpected object %T", object)
		}
	}
	for _, p := range found {
		checkPolicy(t, p)
		var bound []admissionv1.NamedRuleWithOperations
		for _, kinds := range []string{"pods", "workloads", "jobs"} {
			b := bindings[strings.Replace(p.Name, "-", "-"+kinds+"-", 1)]
			if b == nil {
				t.Fatalf("%s is not bound to %s", p.Name, kinds)
			}
			checkBinding(t, b, p)
			bound = append(bound, b.Spec.MatchResources.ResourceRules...)
		}
		if diff := cmp.Diff(p.Spec.MatchConstraints.ResourceRules, bound); diff != "" {
			t.Errorf("%s: (-policy +bindings)\n%s", p.Name, diff)
		}
	}
	if len(found) != 2 || len(bindings) != 6 {
		t.Errorf("%d policies, %d bindings", len(found), len(bindings))
	}
	for _, p := range found {
		checkVariablesUsed(t, p)
	}
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
func checkBinding(t *testing.T, b *admissionv1.ValidatingAdmissionPolicyBinding, p *admissionv1.ValidatingAdmissionPolicy) {
	t.Helper()
	action := admissionv1.Warn
	if b.Name == "dnsconfigurer-pods-errors" {
		action = admissionv1.Deny
	}
	want := admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName:        p.Name,
		ValidationActions: []admissionv1.ValidationAction{action},
		MatchResources:    b.Spec.MatchResources,
	}
	if diff := cmp.Diff(want, b.Spec); diff != "" {
		t.Errorf("%s: (-want +got)\n%s", b.Name, diff)
	}
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

// TestAdmission_Codes: the comment above each rule is its code in docs/checks.md.
func TestAdmission_Codes(t *testing.T) {
	docs := must.Get(os.ReadFile("../docs/checks.md"))(t)
	rules := strings.Split(string(renderAll(t)), "\n  validations:\n")[1:]
	for i, validations := range rules {
		validations, _, _ = strings.Cut(validations, "\n---\n")
		count := strings.Count("\n"+validations, "\n  - ")
		codes := regexp.MustCompile(`(?m)^  # ([a-z-]+).*\n  - `).FindAllStringSubmatch(validations, -1)
		if len(codes) != count {
			t.Errorf("policy %d: %d rules and %d codes", i, count, len(codes))
		}
		for _, code := range codes {
			if !strings.Contains(string(docs), "| `"+code[1]+"` |") {
				t.Errorf("docs/checks.md has no code %s", code[1])
			}
		}
	}
	if len(rules) != 2 {
		t.Errorf("%d policies", len(rules))
	}
}

// TestWebhook_Hooks checks the registration of the webhook, which the chart completes: the API servers
// go on without the webhook.
func TestWebhook_Hooks(t *testing.T) {
	objects := decodeAll(t, "chart/files/webhook/validating.yaml", "chart/files/webhook/mutating.yaml")
	check := func(name, path string, c admissionv1.WebhookClientConfig, failure *admissionv1.FailurePolicyType,
		effects *admissionv1.SideEffectClass, timeout *int32, conditions int) {
		if *c.Service.Path != path || *failure != admissionv1.Ignore || *effects != admissionv1.SideEffectClassNone || conditions == 0 {
			t.Errorf("%s: path %s, failurePolicy %s, sideEffects %s, %d matchConditions",
				name, *c.Service.Path, *failure, *effects, conditions)
		}
		if d := time.Duration(*timeout) * time.Second; d != 3*time.Second {
			t.Errorf("%s: the timeout is %v, want that of reading a body", name, d)
		}
	}
	for _, w := range the[*admissionv1.ValidatingWebhookConfiguration](t, objects, "").Webhooks {
		check(w.Name, webhook.PathValidate, w.ClientConfig, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, len(w.MatchConditions))
	}
	for _, w := range the[*admissionv1.MutatingWebhookConfiguration](t, objects, "").Webhooks {
		check(w.Name, webhook.PathMutate, w.ClientConfig, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, len(w.MatchConditions))
	}
}

// decodeAll returns the objects of files.
func decodeAll(t *testing.T, files ...string) (objects []runtime.Object) {
	t.Helper()
	for _, file := range files {
		objects = append(objects, must.Get(decodeFile(file))(t)...)
	}
	return objects
}

// TestWebhook_Termination checks that the pods of the chart have the time to end.
func TestWebhook_Termination(t *testing.T) {
	pod := must.Get(os.ReadFile("chart/templates/webhook.yaml"))(t)
	helpers := must.Get(os.ReadFile("chart/templates/_helpers.tpl"))(t)
	grace := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`).FindSubmatch(pod)
	_, config, _ := strings.Cut(string(helpers), `define "dnsconfigurer.webhook.config"`)
	lameduck := regexp.MustCompile(`"lameduck" "(\w+)"`).FindStringSubmatch(config)
	if grace == nil || lameduck == nil {
		t.Fatal("no terminationGracePeriodSeconds, or no lameduck")
	}
	has, errGrace := time.ParseDuration(string(grace[1]) + "s")
	needs, errLameduck := time.ParseDuration(lameduck[1])
	if errGrace != nil || errLameduck != nil || has < needs+webhook.Drain+5*time.Second {
		t.Errorf("the pod has %v to terminate, and needs %v and %v", has, needs, webhook.Drain)
	}
}
