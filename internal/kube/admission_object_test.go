// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// TestScaled: a StatefulSet that is scaled is what is read when it has these replicas.
func TestScaled(t *testing.T) {
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
		{math.MaxInt32 - 1, 3, "db-2147483647"}, // 2147483648 is no int32, and as long
		{math.MaxInt32, math.MaxInt32, "db-2147483647"},
	} {
		read := func(replicas int32) kube.Workload {
			t.Helper()
			text := fmt.Sprintf(`{"metadata":{"name":"db"},"spec":{"serviceName":"ring","replicas":%d,"ordinals":{"start":%d}}}`, replicas, tt.start)
			w, known, err := kube.ReadReviewed("apps/v1", "StatefulSet", []byte(text))
			if !known || err != nil {
				t.Fatal(err)
			}
			return w
		}
		was := read(5)
		for _, w := range []kube.Workload{was.Scaled(tt.replicas), read(tt.replicas)} {
			if w.Pod.Name != tt.want || w.Pod.Spec.Hostname != tt.want || w.Pod.Spec.Subdomain != "ring" || w.Numbered.First != tt.start {
				t.Errorf("%d from %d on: %s, %s, %+v; want %s", tt.replicas, tt.start, w.Pod.Name, w.Pod.Spec.Hostname, w.Numbered, tt.want)
			}
		}
		if was.Pod.Name != read(5).Pod.Name {
			t.Errorf("the StatefulSet has become %s", was.Pod.Name)
		}
	}
}
