// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAnnotations(t *testing.T) {
	p, err := New(Config{NodeName: "node1"})
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	p.FollowAnnotations([]string{"a", "b"}, func(uid string) { changed = append(changed, uid) })
	pod := func(uid string, values map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: uid, UID: types.UID(uid), Annotations: values}}
	}
	steps := []struct {
		do      func() error
		changed string // "": none
		uid     string
		value   string // of a; "-": the pod is not known
	}{
		{func() error { return p.table.Add(pod("u", map[string]string{"a": "1", "c": "1"})) }, "", "u", "1"},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": "1", "c": "2"})) }, "", "u", "1"},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": "2"})) }, "u", "u", "2"},
		{func() error { return p.table.Update(pod("u", nil)) }, "u", "u", ""},
		{func() error { return p.table.Update(pod("u", map[string]string{"a": strings.Repeat("x", 1000)})) },
			"u", "u", strings.Repeat("x", maxAnnotation)},
		{func() error { return p.table.Replace([]any{pod("v", nil)}, "1") }, "", "u", "-"},
		{func() error { return p.table.Replace([]any{pod("v", map[string]string{"b": "1"})}, "2") }, "v", "v", ""},
		{func() error { return p.table.Delete(pod("v", nil)) }, "", "v", "-"},
	}
	for i, s := range steps {
		changed = nil
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		var want []string
		if s.changed != "" {
			want = []string{s.changed}
		}
		if !slices.Equal(changed, want) {
			t.Errorf("step %d: changed %q, want %q", i, changed, want)
		}
		if values, ok := p.Annotations(s.uid); ok != (s.value != "-") || ok && values["a"] != s.value {
			t.Errorf("step %d: %q, %t, want %q", i, values, ok, s.value)
		}
	}
}
