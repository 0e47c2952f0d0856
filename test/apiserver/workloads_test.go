// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// pod is what the manifests below say of their pods, or what is found in them.
type pod struct {
	policy      string // "": none
	annotations map[string]string
}

// kind is a kind of object that is a pod or has a template of pods.
type kind struct {
	name     string
	fixed    bool // the pod is immutable
	restart  corev1.RestartPolicy
	manifest string // with NAME, and ANNOTATIONS and SPEC of the pod
}

var kinds = []kind{
	{"Pod", true, corev1.RestartPolicyAlways, `{apiVersion: v1, kind: Pod, metadata: {name: NAME, ANNOTATIONS}, spec: SPEC}`},
	{"PodTemplate", false, corev1.RestartPolicyAlways,
		`{apiVersion: v1, kind: PodTemplate, metadata: {name: NAME}, template: {metadata: {ANNOTATIONS}, spec: SPEC}}`},
	{"ReplicationController", false, corev1.RestartPolicyAlways,
		`{apiVersion: v1, kind: ReplicationController, metadata: {name: NAME}, spec: {template: ` +
			`{metadata: {labels: {app: NAME}, ANNOTATIONS}, spec: SPEC}}}`},
	{"Deployment", false, corev1.RestartPolicyAlways,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME}, spec: {selector: ` +
			`{matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}, ANNOTATIONS}, spec: SPEC}}}`},
	{"StatefulSet", false, corev1.RestartPolicyAlways,
		`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: NAME}, spec: {serviceName: db, ` +
			`selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}, ANNOTATIONS}, spec: SPEC}}}`},
	{"DaemonSet", false, corev1.RestartPolicyAlways,
		`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: NAME}, spec: {selector: ` +
			`{matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}, ANNOTATIONS}, spec: SPEC}}}`},
	{"ReplicaSet", false, corev1.RestartPolicyAlways,
		`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: NAME}, spec: {selector: ` +
			`{matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}, ANNOTATIONS}, spec: SPEC}}}`},
	{"Job", true, corev1.RestartPolicyNever,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: NAME}, spec: {template: {metadata: {ANNOTATIONS}, spec: SPEC}}}`},
	{"CronJob", false, corev1.RestartPolicyNever,
		`{apiVersion: batch/v1, kind: CronJob, metadata: {name: NAME}, spec: {schedule: "0 4 * ` +
			`* *", jobTemplate: {spec: {template: {metadata: {ANNOTATIONS}, spec: SPEC}}}}}`},
}

// templates are the kinds whose pods can be changed.
func templates() []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.fixed })
}

// separator is between documents of YAML.
const separator = "\n---\n"

// manifests has, of each of the kinds, one on the pod network and one on the host's.
func manifests(t *testing.T, of []kind, p pod) string {
	t.Helper()
	var all []string
	for _, k := range of {
		for name, host := range map[string]bool{"pod-network": false, "host-network": true} {
			annotations := ""
			if p.annotations != nil {
				annotations = "annotations: " + text(t, p.annotations)
			}
			spec := map[string]any{
				"containers":    []any{map[string]string{"name": "app", "image": "registry.example/app:1"}},
				"hostNetwork":   host,
				"restartPolicy": k.restart,
			}
			if p.policy != "" {
				spec["dnsPolicy"] = p.policy
			}
			if p.policy == "None" {
				spec["dnsConfig"] = map[string]any{"nameservers": []string{"192.0.2.53"}}
			}
			all = append(all, strings.NewReplacer("NAME", name, "ANNOTATIONS", annotations, "SPEC", text(t, spec)).Replace(k.manifest))
		}
	}
	slices.Sort(all)
	return strings.Join(all, separator)
}

func text(t *testing.T, v any) string {
	t.Helper()
	return string(must.Get(json.Marshal(v))(t))
}

// objects reads what kubectl shows of objects: a List.
func objects(t *testing.T, list string) []unstructured.Unstructured {
	t.Helper()
	var l struct{ Items []unstructured.Unstructured }
	if err := json.Unmarshal([]byte(list), &l); err != nil {
		t.Fatalf("%v\n%s", err, list)
	}
	return l.Items
}

// fields returns the pod in an object: what has its metadata and spec.
func fields(o unstructured.Unstructured) map[string]any {
	for _, path := range []string{"template", "spec.template", "spec.jobTemplate.spec.template"} {
		if template, ok, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...); ok {
			return template.(map[string]any)
		}
	}
	return o.Object
}

// podOf returns what an object says of its pods, without what kubectl itself notes.
func podOf(o unstructured.Unstructured) pod {
	policy, _, _ := unstructured.NestedString(fields(o), "spec", "dnsPolicy")
	annotations, _, _ := unstructured.NestedStringMap(fields(o), "metadata", "annotations")
	maps.DeleteFunc(annotations, func(key, _ string) bool { return key == corev1.LastAppliedConfigAnnotation })
	return pod{policy, annotations}
}
