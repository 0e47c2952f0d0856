// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// strategies are the API server's own, by the kinds of the table.
var strategies = map[string]rest.RESTCreateStrategy{
	"Pod": pod.Strategy, "Deployment": deployment.Strategy, "StatefulSet": statefulset.Strategy, "DaemonSet": daemonset.Strategy,
	"Job": job.Strategy, "CronJob": cronjob.Strategy,
}

// TestAdmissionVectors checks the table of vectors against the API server's validation
// and, for accepted pods, against the kubelet.
func TestAdmissionVectors(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	var list []cases.Case
	var checked []vectors.Vector
	for _, v := range table {
		object, gvk := decode(t, v.Object)
		if gvk.Kind == "List" {
			continue // kubectl splits it
		}
		problems := create(t, object, gvk.Kind)
		did := "accepts"
		if len(problems) > 0 {
			did = "refuses"
		}
		if did != v.APIServer {
			t.Errorf("%s: the API server %s, want %s: %v", v.Name, did, v.APIServer, problems)
		}
		if diff := cmp.Diff(refusedFields(v), ownFields(fieldsOf(problems))); diff != "" && did == "refuses" {
			t.Errorf("%s: fields that the API server refuses (-table +API server):\n%s", v.Name, diff)
		}
		switch {
		case v.Kubelet == "" && (gvk.Kind != "Pod" || did == "refuses"):
		case gvk.Kind != "Pod" || did == "refuses":
			t.Errorf("%s: no kubelet sees it, and the table says that it %s", v.Name, v.Kubelet)
		default:
			c := cases.Case{ID: "vector", Pod: external(t, object), ClusterDNS: v.Node.ClusterDNS, ClusterDomain: v.Node.ClusterDomain}
			if v.Node.ResolvConf != nil {
				c.HostResolvConf = *v.Node.ResolvConf
			}
			list, checked = append(list, c), append(checked, v)
		}
	}
	for i, a := range ask(t, list) {
		did := "starts"
		switch {
		case a.Error != "":
			did = "refuses"
		case slices.ContainsFunc(a.Events, func(e cases.Event) bool { return e.Reason == "DNSConfigForming" }):
			did = "cuts"
		}
		if did != checked[i].Kubelet {
			t.Errorf("%s: the kubelet %s, want %q: %s %v", checked[i].Name, did, checked[i].Kubelet, a.Error, a.Events)
		}
	}
	if len(list) == 0 {
		t.Error("no pod for the kubelet")
	}
	t.Logf("%d vectors to the API server's validation, %d to the kubelet", len(table), len(list))
}

// TestAdmissionDifferential compares the rules with the API server's validation and the
// kubelet for generated pods. The API server refuses a pod in the fields that the rules
// name. An accepted pod starts if the rules find no error, and is truncated if they say
// so, except where the project differs from the kubelet (docs/compatibility.md).
func TestAdmissionDifferential(t *testing.T) {
	const pods = 20000
	var list []cases.Case
	var verdicts []verdict
	refused := 0
	for c := range cases.Generate(0, pods) {
		c.Manifest = false
		c.Pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c"}}
		c.Pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		text := must.Get(json.Marshal(c.Pod))(t)
		object, _ := decode(t, text)
		want := slices.DeleteFunc(fieldsOf(create(t, object, "Pod")), notAboutDNS)
		c.Pod = external(t, object)
		rules, err := admission.New(nodeOf(c), new(resolvconf.Read(strings.NewReader(c.HostText()))))
		if err != nil {
			continue // a host file that the kubelet refuses
		}
		found := vectors.Check(t, rules, admission.Object{Kind: admission.KindPod, Name: c.Pod.Name, Pod: kube.FromPod(c.Pod)})
		if diff := cmp.Diff(want, refusedBy(found), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("fields that the API server refuses (-API server +rules):\n%s%s", diff, text)
		}
		if len(want) > 0 {
			refused++
		} else if diverges, _ := cases.Diverge(c); len(diverges) == 0 && c.ResolvConfMode == cases.FileMode {
			list, verdicts = append(list, c), append(verdicts, verdictOf(found))
		}
	}
	count := map[verdict]int{}
	for i, a := range ask(t, list) {
		want := verdict{refused: a.Error != "",
			cut: slices.ContainsFunc(a.Events, func(e cases.Event) bool { return e.Reason == "DNSConfigForming" })}
		if count[want]++; want != verdicts[i] {
			t.Errorf("the kubelet: %+v, the rules: %+v: %s %v\n%s", want, verdicts[i], a.Error, a.Events, list[i].String())
		}
	}
	if refused < pods/20 || count[verdict{refused: true}] < 10 || count[verdict{cut: true}] < pods/50 || count[verdict{}] < pods/20 {
		t.Errorf("too few of a kind: %d refused by the API server, by the kubelet %v", refused, count)
	}
	t.Logf("%d pods refused by the API server; by the kubelet %+v", refused, count)
}

// verdict returns the result of a node for a pod.
type verdict struct{ refused, cut bool }

func verdictOf(found []policy.Finding) (v verdict) {
	for _, f := range found {
		v.refused = v.refused || f.IsError() && f.EnforcedBy == policy.EnforcedByNode
		v.cut = v.cut || f.Code == policy.CodeServerLimit || f.Code == policy.CodeSearchLimit
	}
	return v
}

func nodeOf(c cases.Case) policy.Node {
	n := policy.Node{ClusterDomain: c.ClusterDomain, ResolvConf: cases.HostPath}
	for _, s := range c.ClusterDNS {
		if a, ok := cases.ParseAddr(s); ok {
			n.ClusterDNS = append(n.ClusterDNS, a)
		}
	}
	return n
}

func notAboutDNS(field string) bool {
	for _, prefix := range []string{"spec.dns", "spec.hostname", "spec.subdomain", "metadata.name"} {
		if strings.HasPrefix(field, prefix) && field != "metadata.namespace" {
			return false
		}
	}
	return true
}

func refusedBy(found []policy.Finding) []string {
	var fields []string
	for _, f := range found {
		if f.EnforcedBy == policy.EnforcedByAPIServer && (f.IsError() || f.Code == admission.CodeAutopathNeeds) {
			fields = append(fields, f.Field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// refusedFields returns the fields that the API server refuses according to the table.
// The field of a policy that an admission policy rewrites is an info, which the table
// omits.
func refusedFields(v vectors.Vector) []string {
	var fields []string
	for _, f := range v.Findings {
		if f.EnforcedBy == "apiserver" {
			fields = append(fields, f.Field)
		}
	}
	if fields == nil && strings.Contains(string(v.Object), "clusterFirstWithAutopath") {
		fields = []string{"spec.dnsPolicy"}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func fieldsOf(problems field.ErrorList) []string {
	var fields []string
	for _, p := range problems {
		fields = append(fields, p.Field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// ownFields returns the fields of an object from which refused fields follow: the API server
// also refuses the name that it generates, and the label with the name of a Job.
func ownFields(fields []string) []string {
	if slices.Contains(fields, "metadata.generateName") {
		return slices.DeleteFunc(fields, func(f string) bool { return f == "metadata.name" })
	}
	for i, f := range fields {
		if f == "spec.template.labels" {
			fields[i] = "metadata.name"
		}
	}
	return fields
}

// decode decodes an object as the API server does, with defaults.
func decode(t *testing.T, text []byte) (runtime.Object, *schema.GroupVersionKind) {
	t.Helper()
	object, gvk, err := legacyscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return object, gvk
}

// create runs the steps of the API server for a new object before admission.
func create(t *testing.T, object runtime.Object, kind string) field.ErrorList {
	t.Helper()
	strategy, known := strategies[kind]
	if !known {
		t.Fatalf("no strategy for %s", kind)
	}
	ctx := genericapirequest.WithNamespace(t.Context(), "shop")
	meta := must.Get(apimeta.Accessor(object))(t)
	rest.FillObjectMetaSystemFields(meta)
	if meta.GetName() == "" && meta.GetGenerateName() != "" {
		meta.SetName(strategy.GenerateName(meta.GetGenerateName()))
	}
	strategy.PrepareForCreate(ctx, object)
	return strategy.Validate(ctx, object)
}

func external(t *testing.T, object runtime.Object) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	must.Succeed(t, legacyscheme.Scheme.Convert(object, pod, nil))
	return pod
}
