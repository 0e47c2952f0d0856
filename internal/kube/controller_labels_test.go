// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

func TestWorkload_SelectedBy(t *testing.T) {
	type selector map[string]string
	const template = "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}"
	for _, tt := range []struct {
		apiVersion, kind, spec string
		selector               selector
		ordinal                int64
		want                   bool
	}{
		{"apps/v1", "Deployment", template, selector{"app": "a"}, 0, true},
		{"apps/v1", "Deployment", template, selector{"app": "b"}, 0, false},
		{"apps/v1", "Deployment", template, selector{"app": "a", "other": "b"}, 0, false},
		{"apps/v1", "Deployment", template, selector{"app": "a", "pod-template-hash": "x"}, 0, true},
		{"apps/v1", "Deployment", template, selector{"pod-template-hash": "x"}, 0, false},
		{"apps/v1", "DaemonSet", template, selector{"app": "a", "controller-revision-hash": "x"}, 0, true},
		{"apps/v1", "StatefulSet", template + ", replicas: 3", selector{"statefulset.kubernetes.io/pod-name": "w-1"}, 1, true},
		{"apps/v1", "StatefulSet", template + ", replicas: 3", selector{"statefulset.kubernetes.io/pod-name": "w-1"}, 2, false},
		{"apps/v1", "StatefulSet", template + ", replicas: 3", selector{"apps.kubernetes.io/pod-index": "2", "app": "a"}, 2, true},
		{"batch/v1", "Job", template, selector{"job-name": "w"}, 0, true},
		{"batch/v1", "Job", template, selector{"batch.kubernetes.io/job-name": "v"}, 0, false},
		{"batch/v1", "Job", template + ", completionMode: Indexed, completions: 2",
			selector{"job-name": "w", "batch.kubernetes.io/job-completion-index": "1"}, 1, true},
		{"batch/v1", "CronJob", "jobTemplate: {spec: {" + template + "}}", selector{"app": "a", "job-name": "w-1"}, 0, true},
		{"argoproj.io/v1alpha1", "Rollout", template, selector{"app": "a", "rollouts-pod-template-hash": "x"}, 0, true},
		{"argoproj.io/v1alpha1", "Rollout", template, selector{"app": "b"}, 0, false},
		{"v1", "Pod", "containers: []", selector{}, 0, false},
	} {
		m, err := kube.ParseManifest("f",
			[]byte("apiVersion: "+tt.apiVersion+"\nkind: "+tt.kind+"\nmetadata: {name: w}\nspec: {"+tt.spec+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Workloads[0].SelectedBy(tt.selector, tt.ordinal); got != tt.want {
			t.Errorf("%s %v %d: %v, want %v", tt.kind, tt.selector, tt.ordinal, got, tt.want)
		}
	}
}
