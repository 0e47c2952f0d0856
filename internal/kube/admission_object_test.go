// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// TestWithReplicas compares with parsing a StatefulSet of that many replicas.
func TestWithReplicas(t *testing.T) {
	for _, tt := range []struct {
		start, replicas int32
		want            string
	}{
		{0, -1, "db-0"},
		{0, 0, "db-0"},
		{0, 1, "db-0"},
		{0, 11, "db-10"},
		{9, 2, "db-10"},
		{math.MaxInt32 - 1, 2, "db-2147483647"},
		{math.MaxInt32 - 1, 3, "db-2147483647"}, // 2147483648 exceeds int32 and has as many digits
		{math.MaxInt32, math.MaxInt32, "db-2147483647"},
	} {
		parse := func(replicas int32) kube.Workload {
			t.Helper()
			text := fmt.Sprintf(`{"metadata":{"name":"db"},"spec":{"serviceName":"ring","replicas":%d,"ordinals":{"start":%d}}}`,
				replicas, tt.start)
			w, known, err := kube.ParseAdmissionObject("apps/v1", "StatefulSet", []byte(text))
			if !known || err != nil {
				t.Fatal(err)
			}
			return w
		}
		original := parse(5)
		for _, w := range []kube.Workload{original.WithReplicas(tt.replicas), parse(tt.replicas)} {
			if w.Pod.Name != tt.want || w.Pod.Spec.Hostname != tt.want || w.Pod.Spec.Subdomain != "ring" || w.Ordinals.First != tt.start {
				t.Errorf("%d replicas from ordinal %d: %s, %s, %+v; want %s", tt.replicas, tt.start,
					w.Pod.Name, w.Pod.Spec.Hostname, w.Ordinals, tt.want)
			}
		}
		if original.Pod.Name != parse(5).Pod.Name {
			t.Errorf("WithReplicas changed the original to %s", original.Pod.Name)
		}
	}
}

// TestParseAdmissionObject_TypeErrors: an error names the field as the API does.
func TestParseAdmissionObject_TypeErrors(t *testing.T) {
	for _, tt := range []struct{ apiVersion, kind, text, want string }{
		{"v1", "Pod", `{"spec":{"hostname":1}}`, "spec.hostname: is a number, must be a string"},
		{"v1", "Pod", `{"spec":{"os":{"name":1}}}`, "spec.os.name: is a number, must be a string"},
		{"batch/v1", "Job", `{"spec":{"completions":"x"}}`, "spec.completions: is a string, must be a whole number of 32 bits"},
		{"apps/v1", "Deployment", `{"spec":{"template":{"spec":{"subdomain":[]}}}}`,
			"spec.template.spec.subdomain: is a list, must be a string"},
	} {
		if _, _, err := kube.ParseAdmissionObject(tt.apiVersion, tt.kind, []byte(tt.text)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}
