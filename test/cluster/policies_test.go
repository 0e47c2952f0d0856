// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

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

	judge "github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// oldest is the first release that has all functions of the policies (distinct and slice
// of lists). The release after it is the first that accepts them, because the release
// before must know them too.
var oldest = version.MajorMinor(1, 34)

// TestPolicyTypes runs the check of the controller manager, which writes its result to
// status.typeChecking, and expects no warning.
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
	// The check finds an error if there is one.
	p := readPolicies(t)[0]
	p.Spec.Validations[0].Expression = "object.spec.replicas > 0"
	if len(checker.Check(p)) == 0 {
		t.Error("pods have replicas")
	}
}

// TestPolicyVectors evaluates the policies for the table: no expression fails, the
// messages are the same as in the rules, and the cost stays far below the limit.
func TestPolicyVectors(t *testing.T) {
	table := must.Get(vectors.Load())(t)
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
			versioned := must.Get(legacyscheme.Scheme.ConvertToVersion(object, gvk.GroupVersion()))(t)
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
		t.Logf("with the functions of %v: %d vectors cost %d in the median, %d at most, of %d",
			release, len(costs), costs[len(costs)/2], costs[len(costs)-1], celconfig.RuntimeCELCostBudget)
		if costs[len(costs)-1] > celconfig.RuntimeCELCostBudget/100 {
			t.Error("that is too much")
		}
	}
}

var seed = flag.Uint64("seed", 0, "seed of the objects of TestPolicyDifferential")

// TestPolicyDifferential compares the messages of the policies and of the rules, word for
// word, for generated pods and workloads.
func TestPolicyDifferential(t *testing.T) {
	const objects = 20000
	policies := compile(t, environment.DefaultCompatibilityVersion())
	spoken, silent, most := map[policy.Code]int{}, 0, int64(0)
	turn, compared := 0, 0
	for c := range cases.Generate(*seed, objects) {
		turn++
		node := vectors.Node{ClusterDomain: c.ClusterDomain}
		for _, a := range nodeOf(c).ClusterDNS {
			node.ClusterDNS = append(node.ClusterDNS, a.Unmap().String())
		}
		if turn%5 < 2 {
			node.AllowedOverrides = []string{string(policy.None), string(policy.Default)}
		}
		if alwaysFinding(node) {
			continue
		}
		text := workload(t, c.Pod, turn)
		object, gvk := decode(t, text)
		found, verdict := checkObject(t, text, *gvk, node)
		if slices.ContainsFunc(found, func(f policy.Finding) bool {
			return f.EnforcedBy == policy.EnforcedByAPIServer && f.IsError() &&
				!strings.Contains(f.Message, "the API server accepts the object")
		}) {
			continue // no policy matches it
		}
		versioned := must.Get(legacyscheme.Scheme.ConvertToVersion(object, gvk.GroupVersion()))(t)
		compared++
		said, cost := evaluate(t, policies, versioned, *gvk, node)
		most = max(most, cost)
		if diff := cmp.Diff(sentences(verdict), sentences(said)); diff != "" {
			t.Errorf("(-rules +policies)\n%s%+v\n%s", diff, node, text)
		}
		for _, f := range found {
			spoken[f.Code]++
		}
		if len(found) == 0 {
			silent++
		}
	}
	t.Logf("%d objects: of %d nothing was said, of others %v; the cost was %d at most, of %d",
		compared, silent, spoken, most, celconfig.RuntimeCELCostBudget)
	table := must.Get(vectors.Load())(t)
	for _, v := range table {
		for _, f := range v.Findings {
			if v.APIServer == "accepts" && v.Policies == "" && spoken[policy.Code(f.Code)] < 3 {
				t.Errorf("%s is met %d times", f.Code, spoken[policy.Code(f.Code)])
			}
		}
	}
	if silent < objects/100 {
		t.Error("too few without a finding")
	}
}

// TestPolicyLargest: of a pod of the maximum size, full of options, the policies check
// the first 32, as documented in docs/checks.md. The API server counts the cost of a
// list by the square of its length.
func TestPolicyLargest(t *testing.T) {
	const options, checked = 100_000, 32 // of 16 bytes: an object has 1.5 MiB at most in etcd
	policies := compile(t, environment.DefaultCompatibilityVersion())
	for place, want := range map[int]bool{0: true, checked - 1: true, checked: false, options - 1: false} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
		p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: slices.Repeat([]corev1.PodDNSConfigOption{{Name: "rotate"}}, options)}
		p.Spec.DNSConfig.Options[place].Name = "a\n"
		start := time.Now()
		said, cost := evaluate(t, policies, &p, corev1.SchemeGroupVersion.WithKind("Pod"), vectors.Node{ClusterDomain: "cluster.local"})
		t.Logf("%d options: %v, cost %d of %d", options, time.Since(start).Round(time.Millisecond), cost, celconfig.RuntimeCELCostBudget)
		if (len(said) > 0) != want {
			t.Errorf("option %d: %q", place, said)
		}
	}
}

// workload turns a pod into each kind of workload, in turn.
func workload(t *testing.T, pod *corev1.Pod, turn int) []byte {
	t.Helper()
	spec := pod.Spec
	spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c"}}
	annotations := map[string]string{policy.OverrideAnnotation: []string{
		"", "", "clusterFirstWithAutopath", "Default", "Autopath", "None", "clu\u017fterFirstWithAutopath",
		"\x1b[1m" + strings.Repeat("é", 70),
	}[turn%8]}
	if turn%7 == 0 { // a rare form
		spec.DNSConfig = stdcmp.Or(spec.DNSConfig, &corev1.PodDNSConfig{}).DeepCopy()
		spec.DNSConfig.Options = append(spec.DNSConfig.Options, []corev1.PodDNSConfigOption{
			{Name: "attempts", Value: new("0")}, {Name: "attempts:0"},
			{Name: "edns0", Value: new("a\nsearch b")}, {Name: "attempts", Value: new("00")}, {Name: "a\x00"},
			{Name: "ndots", Value: new(strings.Repeat("0", 17) + "9")},
			{Name: "ndots", Value: new(strings.Repeat("0", 18) + "9")}, {Name: "timeout", Value: new("\u0663")},
			{Name: strings.Repeat("é", 71)}, {Name: "\u202e\u00a0\ufffd\x7f\t\\\""}, {Name: "ndots:" + strings.Repeat("\U0001f600", 70)},
			{Name: strings.Repeat("a", 300) + "\n"}, {Name: "rotate", Value: new(strings.Repeat("é", 300))},
			{Name: strings.Repeat("é", 125), Value: new("attempts:0")}, {Name: "attempts", Value: new("0" + strings.Repeat("é", 120))},
		}[turn/7%15])
	}
	if turn%499 == 1 { // rare, too, with each annotation
		spec.OS, spec.DNSPolicy = &corev1.PodOS{Name: corev1.Windows}, corev1.DNSClusterFirstWithHostNet
	}
	template := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
	kinds := []metav1.TypeMeta{
		{APIVersion: "v1", Kind: "Pod"}, {APIVersion: "apps/v1", Kind: "StatefulSet"}, {APIVersion: "apps/v1", Kind: "Deployment"},
		{APIVersion: "v1", Kind: "Pod"}, {APIVersion: "batch/v1", Kind: "CronJob"}, {APIVersion: "v1", Kind: "PodTemplate"},
		{APIVersion: "v1", Kind: "Pod"}, {APIVersion: "batch/v1", Kind: "Job"}, {APIVersion: "v1", Kind: "ReplicationController"},
	}
	kind := kinds[turn%len(kinds)]
	count := []int{0, 1, 2, 10, 11, 1000, 100001}[turn/len(kinds)%7]
	jobSpec := map[string]any{"template": template}
	if turn%2 == 0 {
		jobSpec["completionMode"], jobSpec["completions"] = "Indexed", count
	}
	o := map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind}
	o["metadata"] = map[string]any{"name": pod.Name, "namespace": stdcmp.Or(pod.Namespace, "default"), "annotations": annotations}
	switch kind.Kind {
	case "Pod":
		o["spec"] = spec
	case "PodTemplate":
		o["template"] = template
	case "Job":
		o["spec"] = jobSpec
	case "CronJob":
		o["spec"] = map[string]any{"jobTemplate": map[string]any{"spec": jobSpec}}
	case "StatefulSet":
		start := turn % 11
		if turn%4 == 0 { // the last host name has 63 characters, and the name fits with some hashes
			o["metadata"].(map[string]any)["name"] = strings.Repeat("n", 54)
			count, start = 100_000_000, 0
		}
		o["spec"] = map[string]any{"template": template, "serviceName": spec.Subdomain,
			"replicas": count, "ordinals": map[string]int{"start": start}}
	default:
		o["spec"] = map[string]any{"template": template}
	}
	return must.Get(json.Marshal(o))(t)
}

// alwaysFinding reports whether the rules have a finding for every pod, also for those
// that the policies do not match: the domain is long or ends in a dot, or there are too
// many servers or none.
func alwaysFinding(n vectors.Node) bool {
	servers := slices.Compact(slices.Sorted(slices.Values(n.ClusterDNS)))
	return n.ClusterDomain == "" || len(n.ClusterDomain) > 50 || strings.HasSuffix(n.ClusterDomain, ".") ||
		len(servers) == 0 || len(servers) < len(n.ClusterDNS) || len(servers) > policy.MaxNameservers
}

// checkObject returns the findings of the rules for an object, and the messages of the
// webhook.
func checkObject(t *testing.T, text []byte, gvk schema.GroupVersionKind, n vectors.Node) (found []policy.Finding, said []string) {
	t.Helper()
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	w, _, err := kube.ParseAdmissionObject(apiVersion, kind, text)
	if err != nil {
		t.Fatal(err)
	}
	o := judge.Object{Kind: w.Kind, Name: w.Name, Pod: kube.FromPod(w.Pod), Ordinal: w.Ordinals.Base != ""}
	o.Pod.Path = w.Path
	found = vectors.Check(t, n.Rules(t), o)
	v := judge.NewVerdict(o, found)
	if v.Denied != "" {
		v.Warnings = append(v.Warnings, v.Denied)
	}
	return found, v.Warnings
}

// sentences splits messages into sorted sentences: a policy joins the sentences of one rule, and
// the order of the rules differs.
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

// readPolicies returns the policies with all rules. The values of the cluster are parameters, so
// that each object can have other values without compiling the policies again.
func readPolicies(t *testing.T) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	text := must.Get(judge.PolicyConfig{
		ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}, AllowedOverrides: []string{"None"},
	}.YAML())(t)
	parameters := map[string]string{
		"'cluster.local'":                      "string(params.?data.?clusterDomain.orValue(''))",
		"['10.96.0.10']":                       "string(params.?data.?clusterDNS.orValue('')).split(',').map(s, s.trim())",
		"['ClusterFirstWithAutopath', 'None']": "string(params.?data.?overrides.orValue('')).split(',')",
	}
	var policies []*admissionregistrationv1.ValidatingAdmissionPolicy
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		p := new(admissionregistrationv1.ValidatingAdmissionPolicy)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return policies
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		for i := range p.Spec.Variables {
			if parameter, value := parameters[p.Spec.Variables[i].Expression]; value {
				p.Spec.Variables[i].Expression = parameter
			}
		}
		p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"} // for the type check
		policies = append(policies, p)
	}
}

// compile compiles the policies as the API server of a release does for new ones.
func compile(t *testing.T, release *version.Version) []compiled {
	t.Helper()
	var all []compiled
	for _, p := range readPolicies(t) {
		c := must.Get(plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(release)))(t)
		options := plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
		for _, v := range p.Spec.Variables {
			if r := c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression},
				options, environment.NewExpressions); r.Error != nil {
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
			c.CompileCondition(validations, options, environment.NewExpressions),
			c.CompileCondition(messages, options, environment.NewExpressions),
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

// evaluate returns the messages of the policies for the creation of an object, and the
// cost.
func evaluate(t *testing.T, policies []compiled, object runtime.Object, gvk schema.GroupVersionKind,
	n vectors.Node) (said []string, cost int64) {
	t.Helper()
	meta := must.Get(apimeta.Accessor(object))(t)
	gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
	attributes := admission.NewAttributesRecord(object, nil, gvk, meta.GetNamespace(), meta.GetName(),
		gvr, "", admission.Create, &metav1.CreateOptions{}, true, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: object}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
	inputs := plugincel.OptionalVariableBindings{VersionedParams: &corev1.ConfigMap{Data: map[string]string{
		"clusterDomain": n.ClusterDomain, "clusterDNS": strings.Join(n.ClusterDNS, ", "),
		"overrides": strings.Join(append([]string{string(policy.ClusterFirstWithAutopath)}, n.AllowedOverrides...), ","),
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
