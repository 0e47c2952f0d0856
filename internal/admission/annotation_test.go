// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestCheckAnnotations: annotations of this project have an effect on pods only, and only with
// certain values.
func TestCheckAnnotations(t *testing.T) {
	const kep = "dnsconfigurer.dev/policy"
	all := map[string]string{kep: "None", admission.SkipAnnotation: "true", admission.RefreshAnnotation: "never"}
	for _, tt := range []struct {
		name, kind, path string
		object, pod      map[string]string
		want             []string
	}{
		{"none", "Deployment", "spec.template.", nil, nil, nil},
		{"in the template", "Deployment", "spec.template.", nil, all, nil},
		{"in both", "Deployment", "spec.template.", all, all, nil},
		{"a Pod", "Pod", "", all, all, nil},
		{"in the object", "Deployment", "spec.template.", all, nil, []string{
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/policy]",
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/refresh]",
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/skip]",
		}},
		{"one of a List", "CronJob", "items[2].spec.jobTemplate.spec.template.",
			map[string]string{kep: "None", "team": "shop", "dnsconfigurer.dev/ignore": "x"},
			map[string]string{admission.SkipAnnotation: "true"},
			[]string{"warning annotation-not-in-template at items[2].metadata.annotations[dnsconfigurer.dev/policy]"}},
		{"other values", "Deployment", "spec.template.", nil,
			map[string]string{admission.SkipAnnotation: "yes", admission.RefreshAnnotation: ""}, []string{
				"warning annotation-value at spec.template.metadata.annotations[dnsconfigurer.dev/skip]",
				"warning annotation-value at spec.template.metadata.annotations[dnsconfigurer.dev/refresh]",
			}},
		{"not skipped", "Pod", "", nil, map[string]string{admission.SkipAnnotation: "false"}, nil},
	} {
		o := admission.Object{Kind: tt.kind, Pod: policy.Pod{Path: tt.path}}
		if diff := cmp.Diff(tt.want, places(admission.CheckAnnotations(o, tt.object, tt.pod))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	o := admission.Object{Kind: "Pod"}
	for _, f := range admission.CheckAnnotations(o, nil, map[string]string{admission.SkipAnnotation: strings.Repeat("x", 1<<20)}) {
		if len(f.Message) > 1<<10 {
			t.Errorf("a message of %d bytes", len(f.Message))
		}
	}
}

// TestAnnotations: the annotations are those that the nodes read.
func TestAnnotations(t *testing.T) {
	if admission.SkipAnnotation != cri.SkipAnnotation || admission.RefreshAnnotation != node.RefreshAnnotation {
		t.Error("a node reads another annotation")
	}
}
