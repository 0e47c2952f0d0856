// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestLoad_Table: names are unique, values are known, and abbreviations are expanded.
func TestLoad_Table(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	seen := map[string]bool{}
	for _, v := range table {
		if v.Name == "" || seen[v.Name] {
			t.Errorf("%q is not unique, or empty", v.Name)
		}
		seen[v.Name] = true
		for _, field := range []struct {
			value   string
			allowed []string
		}{
			{v.Operation, []string{"CREATE", "UPDATE"}},
			{v.APIServer, []string{"accepts", "refuses"}},
			{v.Admission, []string{"allows", "warns", "denies"}},
			{v.Kubelet, []string{"", "starts", "cuts", "refuses"}},
		} {
			if !slices.Contains(field.allowed, field.value) {
				t.Errorf("%s: %q is not one of %q", v.Name, field.value, field.allowed)
			}
		}
		if object := string(v.Object); !strings.Contains(object, `"containers":[`) ||
			strings.ContainsAny(object, "<>") || strings.Contains(object, `\u003c`) {
			t.Errorf("%s: not complete, or not expanded: %s", v.Name, object)
		}
	}
}
