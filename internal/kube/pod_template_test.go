// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// TestParseManifest_LongPaths: the paths of pod templates in a custom resource cannot take more
// memory than the resource. One that is too long is noted, not read.
func TestParseManifest_LongPaths(t *testing.T) {
	const template = `{"template":{"spec":{"containers":[{"name":"a"}]}}}`
	nested := func(key string, depth int, value string) string {
		return `{"apiVersion":"x.example/v1","kind":"Foo","metadata":{"name":"a"},"spec":` +
			strings.Repeat(`{"`+key+`":`, depth) + value + strings.Repeat("}", depth) + "}"
	}
	list := "[" + strings.Repeat(template+",", 1000) + template + "]"
	for _, tt := range []struct {
		name, text string
		read       int
		noted      int
	}{
		{"short", nested("k", 300, template), 1, 0},
		{"long keys", nested(strings.Repeat("k", 10_000), 300, template), 0, 1},
		{"long keys of many templates", nested(strings.Repeat("k", 10_000), 300, list), 0, 1},
		{"many keys", nested("k", 5000, list), 0, 1},
		{"a long key of a scalar", nested(strings.Repeat("k", 10_000), 1, `"a"`), 0, 0},
	} {
		m, err := kube.ParseManifest("a.json", []byte(tt.text))
		if err != nil || len(m.Workloads) != tt.read || len(m.Notes) != tt.noted {
			t.Errorf("%s: %d read, %d noted, %v; want %d, %d", tt.name, len(m.Workloads), len(m.Notes), err, tt.read, tt.noted)
		}
		for _, note := range m.Notes {
			if text := fmt.Sprint(note); len(text) > 2<<10 || !strings.Contains(text, "the pods of a Foo are not read") {
				t.Errorf("%s: a note of %d bytes: %.300s", tt.name, len(text), text)
			}
		}
	}
}
