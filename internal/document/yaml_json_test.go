// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestJSON_Merge: a merged key may be overridden, with the result of kubectl.
func TestJSON_Merge(t *testing.T) {
	const base = "base: &base {app: a, tier: front}\nother: &other {tier: other, zone: z}\n"
	for _, text := range []string{
		"labels: {<<: *base}\n",
		"labels: {<<: *base, tier: back}\n",
		"labels: {tier: back, <<: *base}\n",
		"labels: {<<: [*base, *other], zone: y}\n",
		"containers:\n- &c {name: one, image: i, ports: [{containerPort: 1}]}\n- <<: *c\n  name: two\n",
		"outer: {inner: &inner {<<: *base, app: b}, again: {<<: *inner, tier: x}}\n",
	} {
		want := must.Get(yaml.YAMLToJSON([]byte(base + text)))(t)
		if got, err := document.JSON([]byte(base+text), 1); err != nil || string(got) != string(want) {
			t.Errorf("%s\n got %s, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestJSON_Rejected(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a: 1\nb: {c: 1, d: 2, c: 3}\n", `line 12: key "c" already set in map`},
		{"a: 1\nb: caf\xe9 \nc: 1\n", "line 12: not UTF-8: save the file as UTF-8"},
		{"\xff", "line 11: not UTF-8: save the file as UTF-8"},
		{"a: 1\na: 2\nb: {c: 1,\n c: 3}\n", "line 12: key \"a\" already set in map\nline 14: key \"c\" already set in map"},
		{"base: &base {app: a}\nlabels:\n  <<: *base\n  app: b\n  app: c\n", `line 15: key "app" already set in map`},
		{"1: a\n\"1\": b\n", `line 12: key "1" already set in map`},
		{"a: &k x\n*k : 1\nx: 2\n", `line 13: key "x" already set in map`},
		{"name: {{ .Values.name }}\n", "line 11: a key is a mapping or a list, must be a string"},
		{"[a, b]: c\n", "line 11: a key is a mapping or a list, must be a string"},
		{"{a: 1}\n{b: 2}\n", "line 12: a second value: separate documents with a line ---"},
		{"{a: 1} {b: 2}\n", "line 11: a second value: separate documents with a line ---"},
		{"{a: 1}\n\n{b: [\n", "line 13: a second value: separate documents with a line ---"},
		{"{a: 1}\n--- {b: 2}\n", "line 12: a second value: separate documents with a line ---"},
	} {
		if js, err := document.JSON([]byte(tt.text), 11); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\n got %v, %s\nwant %s", tt.text, err, js, tt.want)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "~\n"} {
		if js, err := document.JSON([]byte(text), 1); err != nil || string(js) != "null" {
			t.Errorf("%q: %s, %v", text, js, err)
		}
	}
}
