// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// kustomization is the name of the file that makes a directory a base.
const kustomization = "kustomization.yaml"

// base returns the objects of a base.
func base(t *testing.T, dir string) (objects []runtime.Object) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dir, kustomization)))(t)
	var k struct {
		APIVersion, Kind string
		Resources        []string
	}
	if err := yaml.UnmarshalStrict(text, &k); err != nil || k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" {
		t.Fatalf("%s: %+v, %v", dir, k, err)
	}
	for _, file := range k.Resources {
		objects = append(objects, must.Get(decodeFile(filepath.Join(dir, file)))(t)...)
	}
	return objects
}

// TestKustomize checks that each directory with manifests is a base of all of them. kubectl
// builds the bases in test/chart.
func TestKustomize(t *testing.T) {
	bases := 0
	err := filepath.WalkDir(".", func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if slices.Contains([]string{"chart", "monitoring", "systemd"}, dir) {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			return err
		}
		want := 0
		for _, file := range files {
			if filepath.Base(file) == kustomization {
				continue
			}
			decoded, err := decodeFile(file)
			if err != nil {
				return err
			}
			want += len(decoded)
		}
		if got := base(t, dir); len(got) != want {
			t.Errorf("%s has %d objects, its kustomization %d", dir, want, len(got))
		}
		bases++
		return nil
	})
	if err != nil || bases != 7 {
		t.Errorf("%d bases, %v", bases, err)
	}
}

// TestKustomize_Components checks that the pods have the label by which the documentation selects
// them, as those of the chart do. The selectors of workloads are immutable, so they cannot get it.
func TestKustomize_Components(t *testing.T) {
	const label = "app.kubernetes.io/component"
	got := map[string]string{}
	for dir := range manifests {
		for _, w := range workloads(base(t, dir)) {
			component, pods, selector := w.Labels[label], w.template.Labels, w.selector.MatchLabels
			if pods[label] != component || selector[label] != "" {
				t.Errorf("%s: component %q, of the pods %q, in the selector %q", w.Name, component, pods[label], selector[label])
			}
			got[w.Name] = component
		}
	}
	want := map[string]string{
		"dnsconfigurer-agent": "agent", "dnsconfigurer-nri": "nri",
		"dnsconfigurer-dns": "dns", "dnsconfigurer-node-cache": "node-cache",
	}
	if !maps.Equal(got, want) {
		t.Errorf("components %q, want %q", got, want)
	}
}

// chartFiles are the files of the chart that are copies, with their sources. They are not
// links, because not every copy of the repository keeps links.
var chartFiles = map[string]string{
	"chart/files/autopath.yaml":      "autopath/policy.yaml",
	"chart/files/dashboard.json":     "monitoring/dashboard.json",
	"chart/files/policies.yaml.tmpl": "../internal/admission/policies.yaml.tmpl",
	"chart/files/rules.yaml":         "monitoring/rules.yaml",
}

// TestChart_Files checks the copies in the chart.
func TestChart_Files(t *testing.T) {
	for file, source := range chartFiles {
		want := must.Get(os.ReadFile(source))(t)
		if *update {
			must.Succeed(t, os.WriteFile(file, want, 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not a copy of %s (%v): run go test ./deploy -update", file, source, err)
		}
	}
}

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
