// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// placesOf returns the objects of a manifest with their places, and all that was reported.
func placesOf(text string) (lines []string) {
	m, err := kube.ParseManifest("f", []byte(text))
	for _, w := range m.Workloads {
		lines = append(lines, fmt.Sprintf("%s %s/%s at %v", w.Kind, w.Namespace, w.Name, w.At("")))
	}
	for _, o := range m.Others {
		lines = append(lines, fmt.Sprintf("%s %s at %v", o.Kind, o.Path(), o.At("")))
	}
	for _, u := range m.Unknown {
		lines = append(lines, u.InputError().Error())
	}
	return append(lines, fmt.Sprint(m.Notes), fmt.Sprint(err))
}

// A list is split into its items, unless a comment follows the separator of its document.
func splitAndWhole(text string) (split, whole []string) {
	return placesOf("---\n" + text), placesOf("--- #\n" + text)
}

const listHead = "apiVersion: v1\nkind: List\n"

// TestParseManifest_List: the items of a list have the places and the errors that they have in the list as a whole.
func TestParseManifest_List(t *testing.T) {
	const pod = "- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: {hostname: a}\n"
	for name, text := range map[string]string{
		"two pods":                            listHead + "items:\n" + pod + pod + "metadata: {resourceVersion: ''}\n",
		"indented":                            listHead + "items:\n  " + strings.ReplaceAll(pod, "\n", "\n  ") + "\nmetadata: {}\n",
		"comments and blank lines":            listHead + "items: \n# one\n\n" + pod + "\n# two\n" + pod,
		"items first":                         "items:\n" + pod + "kind: List\napiVersion: v1\n",
		"a typed list":                        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {hostNmae: x}\n",
		"block scalars":                       listHead + "items:\n" + pod + "  data: |\n    - a\n    items:\n" + pod,
		"a quoted scalar at the first column": listHead + "items:\n- apiVersion: v1\n  kind: \"Pod\n\n- b\"\n",
		"an alias of another item":            listHead + "items:\n- &a {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- *a\n",
		"a list in a list":                    listHead + "items:\n- apiVersion: v1\n  kind: List\n  items:\n  - {}\n",
		"an item without a kind":              listHead + "items:\n" + pod + "- apiVersion: v1\n",
		"an item that is a scalar":            listHead + "items:\n" + pod + "- text\n",
		"an item that is not YAML":            listHead + "items:\n" + pod + "- {a: [}\n",
		"a key twice":                         listHead + "items:\n" + pod + "  kind: Pod\n",
		"an error in a field":                 listHead + "items:\n" + pod + "- {apiVersion: v1, kind: Pod, spec: {dnsPolicy: 5}}\n",
		"flow style":                          listHead + "items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n",
		"no items":                            listHead + "items:\n",
		"items twice":                         listHead + "items:\n" + pod + "items:\n" + pod,
		"another kind":                        "apiVersion: example.com/v1\nkind: MenuList\nitems:\n- a\n",
	} {
		split, whole := splitAndWhole(text)
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("%s: (-as a whole +split)\n%s", name, diff)
		}
	}
}

func FuzzParseManifest_List(f *testing.F) {
	f.Add("- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- {}\nmetadata: {}\n")
	f.Add("  - a: |\n     - b\n  - *c\n")
	f.Fuzz(func(t *testing.T, items string) {
		items = strings.NewReplacer("\r", "", "\u0085", "", "\u2028", "", "\u2029", "").Replace(items) // lines for the decoder alone
		split, whole := splitAndWhole(listHead + "items:\n" + items)
		if diff := cmp.Diff(whole, split); diff != "" {
			t.Errorf("(-as a whole +split)\n%s", diff)
		}
	})
}
