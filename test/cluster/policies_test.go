// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/generated/openapi"

	judge "github.com/dnsconfigurer/dnsconfigurer/pkg/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// oldest is the first release that has all functions of the policies (lists.distinct).
var oldest = version.MajorMinor(1, 34)

// TestPolicyTypes: the check that a cluster's controller manager makes of a policy, and
// writes into its status.typeChecking, finds nothing.
func TestPolicyTypes(t *testing.T) {
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "batch", Version: "v1"}} {
		for kind := range legacyscheme.Scheme.KnownTypes(gv) {
			mapper.Add(gv.WithKind(kind), apimeta.RESTScopeNamespace)
		}
	}
	checker := &validating.TypeChecker{
		SchemaResolver: resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, legacyscheme.Scheme),
		RestMapper:     mapper,
	}
	for _, p := range readPolicies(t) {
		for _, w := range checker.Check(p) {
			t.Errorf("%s: %s: %s", p.Name, w.FieldRef, w.Warning)
		}
	}
	// That it would find something.
	p := readPolicies(t)[0]
	p.Spec.Validations[0].Expression = "object.spec.replicas > 0"
	if len(checker.Check(p)) == 0 {
		t.Error("pods have replicas")
	}
}

// TestPolicyVectors evaluates the policies for the table: no expression fails, what is
// said is in the words of the rules, and what it costs stays far below the limit.
func TestPolicyVectors(t *testing.T) {
	table, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []*version.Version{oldest, environment.DefaultCompatibilityVersion()} {
		policies := compile(t, release)
		var costs []int64
		for _, v := range table {
			object, gvk := decode(t, v.Object)
			if v.Operation != "CREATE" || v.APIServer != "accepts" || v.Policies != "" || gvk.Kind == "List" {
				continue
			}
			if problems := create(t, object, gvk.Kind); len(problems) > 0 {
				t.Fatalf("%s: %v", v.Name, problems)
			}
			versioned, err := legacyscheme.Scheme.ConvertToVersion(object, gvk.GroupVersion())
			if err != nil {
				t.Fatal(err)
			}
			said, cost := evaluate(t, policies, versioned, *gvk, v.Node)
			costs = append(costs, cost)
			var want []string
			for _, f := range v.Findings {
				want = append(want, f.Field+": "+f.Message+"; "+f.Hint)
			}
			if diff := cmp.Diff(sentences(want), sentences(said)); diff != "" {
				t.Errorf("%s: (-table +policies)\n%s", v.Name, diff)
			}
		}
		slices.Sort(costs)
		t.Logf("with the functions of %v: %d vectors cost %d in the median, %d at most, of %d", release, len(costs), costs[len(costs)/2], costs[len(costs)-1], celconfig.RuntimeCELCostBudget)
		if costs[len(costs)-1] > celconfig.RuntimeCELCostBudget/100 {
			t.Error("that is too much")
		}
	}
}

// TestPolicyDifferential puts generated pods to the policies and to the rules: the same
// is said, word for word.
func TestPolicyDifferential(t *testing.T) {
	const pods = 20000
	policies := compile(t, environment.DefaultCompatibilityVersion())
	judged, silent := 0, 0
	var most int64
	for c := range cases.Generate(0, pods) {
		c.Pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c"}}
		c.Pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		node := vectors.Node{ClusterDomain: c.ClusterDomain}
		for _, a := range nodeOf(c).ClusterDNS {
			node.ClusterDNS = append(node.ClusterDNS, a.Unmap().String())
		}
		if len(node.ClusterDNS) == 0 || node.ClusterDomain == "" {
			continue // the node's trouble, not the pod's
		}
		text, err := json.Marshal(c.Pod)
		if err != nil {
			t.Fatal(err)
		}
		object, gvk := decode(t, text)
		if len(create(t, object, "Pod")) > 0 {
			continue
		}
		pod := external(t, object)
		said, cost := evaluate(t, policies, pod, *gvk, node)
		most = max(most, cost)
		want := judgement(t, pod, node)
		if diff := cmp.Diff(sentences(want), sentences(said)); diff != "" {
			t.Errorf("(-rules +policies)\n%s%+v\n%s", diff, node, text)
		}
		judged++
		if len(want) == 0 {
			silent++
		}
	}
	t.Logf("%d pods were judged, of %d nothing was said, and the cost was %d at most, of %d", judged, silent, most, celconfig.RuntimeCELCostBudget)
	if judged < pods/4 || judged-silent < pods/10 || silent < pods/100 {
		t.Error("too few of a kind")
	}
}

// judgement is what the rules say of a pod, save what the policies leave to others.
func judgement(t *testing.T, pod *corev1.Pod, n vectors.Node) []string {
	t.Helper()
	node := policy.Node{ClusterDomain: n.ClusterDomain}
	for _, s := range n.ClusterDNS {
		node.ClusterDNS = append(node.ClusterDNS, netip.MustParseAddr(s))
	}
	r, err := judge.New(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range r.Check(judge.Object{Kind: judge.KindPod, Name: pod.Name, Pod: kube.FromPod(pod)}) {
		if f.Severity != policy.SeverityInfo && f.Code != policy.CodeAutopathUnavailable {
			said = append(said, f.Field+": "+f.Message+"; "+f.Hint)
		}
	}
	return said
}

// sentences parts what is said into sentences, in order: a policy says those of one rule
// together, and the rules in an order of its own.
func sentences(said []string) []string {
	all := strings.Split(strings.Join(said, ". "), ". ")
	slices.Sort(all)
	return all
}

// compiled is a policy as an API server keeps it.
type compiled struct {
	*admissionregistrationv1.ValidatingAdmissionPolicy

	conditions, validations, messages plugincel.ConditionEvaluator
}

// readPolicies returns the policies that deploy has.
func readPolicies(t *testing.T) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	for _, name := range []string{"errors.yaml", "warnings.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../deploy/admission", name))
		if err != nil {
			t.Fatal(err)
		}
		p := new(admissionregistrationv1.ValidatingAdmissionPolicy)
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)).Decode(p); err != nil {
			t.Fatal(err)
		}
		policies = append(policies, p)
	}
	return policies
}

// expression is one that is to be compiled; message tells what it returns.
type expression struct {
	text    string
	message bool
}

// compile makes of the policies what the API server of a release makes of new ones.
func compile(t *testing.T, release *version.Version) []compiled {
	t.Helper()
	var all []compiled
	for _, p := range readPolicies(t) {
		c, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(release))
		if err != nil {
			t.Fatal(err)
		}
		options := plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
		for _, v := range p.Spec.Variables {
			if r := c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options, environment.NewExpressions); r.Error != nil {
				t.Errorf("%s: %v: %s: %v", p.Name, release, v.Name, r.Error)
			}
		}
		var conditions, validations, messages []plugincel.ExpressionAccessor
		for i := range p.Spec.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
		}
		for _, v := range p.Spec.Validations {
			validations = append(validations, &validating.ValidationCondition{Expression: v.Expression})
			messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
		k := compiled{
			p, c.CompileCondition(conditions, options, environment.NewExpressions),
			c.CompileCondition(validations, options, environment.NewExpressions), c.CompileCondition(messages, options, environment.NewExpressions),
		}
		for _, e := range []plugincel.ConditionEvaluator{k.conditions, k.validations, k.messages} {
			for _, err := range e.CompilationErrors() {
				t.Errorf("%s: %v: %v", p.Name, release, err)
			}
		}
		all = append(all, k)
	}
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// evaluate is what the policies say of the creation of an object, and what that costs.
func evaluate(t *testing.T, policies []compiled, object runtime.Object, gvk schema.GroupVersionKind, n vectors.Node) (said []string, cost int64) {
	t.Helper()
	meta, err := apimeta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
	attributes := admission.NewAttributesRecord(object, nil, gvk, meta.GetNamespace(), meta.GetName(), gvr, "", admission.Create, &metav1.CreateOptions{}, true, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(object)}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
	inputs := plugincel.OptionalVariableBindings{VersionedParams: &corev1.ConfigMap{Data: map[string]string{
		"clusterDomain": n.ClusterDomain, "clusterDNS": strings.Join(n.ClusterDNS, ", "),
	}}}
	run := func(e plugincel.ConditionEvaluator) []plugincel.EvaluationResult {
		results, remaining, err := e.ForInput(t.Context(), versioned, request, inputs, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		cost += celconfig.RuntimeCELCostBudget - remaining
		return results
	}
	for _, p := range policies {
		if m := run(p.conditions)[0]; m.Error != nil {
			t.Errorf("%s: %v", p.Name, m.Error)
		} else if m.EvalResult.Value() != true {
			continue
		}
		results, messages := run(p.validations), run(p.messages)
		for i, r := range results {
			switch {
			case r.Error != nil:
				t.Errorf("%s: validation %d: %v", p.Name, i, r.Error)
			case r.EvalResult.Value() == true:
			case messages[i].Error != nil:
				t.Errorf("%s: message %d: %v", p.Name, i, messages[i].Error)
			default:
				said = append(said, messages[i].EvalResult.Value().(string))
			}
		}
	}
	return said, cost
}
