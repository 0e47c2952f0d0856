// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// kubectlDocuments returns the number of objects that kubectl reads, and whether it reads
// all without an error.
func kubectlDocuments(text string) (n int, complete bool) {
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var o runtime.RawExtension
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return n, true
		} else if err != nil {
			return n, false
		}
		if raw := bytes.TrimSpace(o.Raw); bytes.HasPrefix(raw, []byte("{")) {
			n++
		}
	}
}

// checkComplete fails the test if kubectl reads more documents of text than a manifest without an error has.
func checkComplete(t *testing.T, text string) {
	t.Helper()
	data := []byte(strings.TrimPrefix(text, "\ufeff"))
	documents, isJSON, err := jsonDocuments(data)
	if !isJSON {
		documents = slices.Collect(yamlDocuments(data))
	}
	n := 0
	for _, d := range documents {
		js := d.text
		if !isJSON && err == nil {
			js, err = document.JSON(d.text, d.line)
		}
		if bytes.HasPrefix(bytes.TrimSpace(js), []byte("{")) {
			n++
		}
	}
	if want, complete := kubectlDocuments(text); err == nil && complete && n < want {
		t.Errorf("%d documents without an error, kubectl reads %d: %q", n, want, text)
	}
}

const (
	jsonPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"}}`
	flowPod = `{apiVersion: v1, kind: Pod, metadata: {name: NAME}}`
	yamlPod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: NAME\n"
)

// TestParseManifest_Complete: streams that are cut at every byte, and every sequence of three
// forms with every separator, are read completely or with an error.
func TestParseManifest_Complete(t *testing.T) {
	forms := []string{jsonPod, flowPod, yamlPod, "null", "# comment"}
	for _, separator := range []string{"\n", "\n---\n", " ", "\n...\n", "\n\n", "\n--- # next\n"} {
		for _, a := range forms {
			for _, b := range forms {
				for _, c := range forms {
					text := strings.ReplaceAll(a, "NAME", "a") + separator +
						strings.ReplaceAll(b, "NAME", "b") + separator + strings.ReplaceAll(c, "NAME", "c")
					checkComplete(t, text)
					want := strings.Count(a+b+c, "v1")
					if m, err := ParseManifest("f", []byte(text)); err == nil && len(m.Workloads) < want && !strings.Contains(a+b+c, "#") {
						t.Errorf("%d of %d pods without an error: %q", len(m.Workloads), want, text)
					}
				}
			}
		}
	}
	for _, stream := range []string{jsonPod + "\n" + jsonPod, flowPod + "\n---\n" + flowPod,
		jsonPod + "\n---\n" + jsonPod + "\n", yamlPod + "---\n" + jsonPod} {
		for i := range stream {
			checkComplete(t, stream[:i])
			m, err := ParseManifest("f", []byte(stream[:i]))
			if err == nil && len(m.Workloads) < strings.Count(stream[:i], "kind") && strings.Count(stream[:i], "NAME") > len(m.Workloads) {
				t.Errorf("%d pods without an error: %q", len(m.Workloads), stream[:i])
			}
		}
	}
}

// TestParseManifest_Null: a null is an empty document in both formats.
func TestParseManifest_Null(t *testing.T) {
	for _, text := range []string{"null", "null\n" + jsonPod, jsonPod + " null " + jsonPod,
		"---\nnull\n---\n" + yamlPod, "~\n", "", "# only a comment\n", "---\n---\n"} {
		m, err := ParseManifest("f", []byte(text))
		if err != nil || len(m.Workloads) != strings.Count(text, "kind") {
			t.Errorf("%q: %d pods, %v", text, len(m.Workloads), err)
		}
		note := "[]"
		if len(m.Workloads) == 0 {
			note = "[f: no Kubernetes object found]"
		}
		if got := fmt.Sprint(m.Notes); got != note {
			t.Errorf("%q: notes %s, want %s", text, got, note)
		}
	}
}

// TestParseManifest_Notes: a kustomization and the pods of kinds that are not read are named.
func TestParseManifest_Notes(t *testing.T) {
	const containers = "spec: {containers: [{name: c, image: registry.example/c}]}"
	for _, tt := range []struct{ file, text, want string }{
		{"d/kustomization.yaml", "resources: [a.yaml]\n", "d/kustomization.yaml:1:1: a kustomization is not read"},
		{"f", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "f:1:1: a kustomization is not read"},
		// it has no name
		{"f", "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nspec: {template: {" + containers + "}}\n",
			"f:3:8: spec.template: the pods of a Rollout are not read"},
		{"f", "apiVersion: a.example/v1\nkind: A\nmetadata: {name: a}\n" +
			"spec: {template: {spec: {dnsPolicy: 1, containers: [{name: c}]}}}\n", "f:4:8: spec.template: the pods of a A are not read"},
		{"f", "apiVersion: example.com/v1\nkind: Firewall\nspec: {containers: [{name: c}]}\n",
			"f:1:1: the pods of a Firewall are not read"},
		{"f", "apiVersion: example.com/v1\nkind: Firewall\nspec: {containers: 3}\n", ""},
		{"f", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", ""},
	} {
		m, err := ParseManifest(tt.file, []byte(tt.text))
		if got := strings.Trim(fmt.Sprint(m.Notes), "[]"); err != nil || got != strings.Trim(tt.want, "[]") {
			t.Errorf("%s: %s, want %s; %v", tt.text, got, tt.want, err)
		}
	}
}

func FuzzParseManifest_Complete(f *testing.F) {
	f.Add(jsonPod + "\n" + jsonPod)
	f.Add(flowPod + "\n---\n" + jsonPod + "\n# end")
	f.Add(yamlPod + "...\n" + flowPod + "\n" + flowPod)
	f.Fuzz(func(t *testing.T, text string) { checkComplete(t, text) })
}
