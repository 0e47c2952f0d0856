// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestParseManifest_Workloads: the name of the example pod is the longest that the
// controller can generate.
func TestParseManifest_Workloads(t *testing.T) {
	n46, n60 := strings.Repeat("n", 46), strings.Repeat("n", 60)
	tests := []struct{ name, manifest, want string }{
		{"a Pod", `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}`, "Pod a/web: web"},
		{"generateName", `{apiVersion: v1, kind: Pod, metadata: {generateName: web-}}`, "Pod /web-xxxxx: web-xxxxx"},
		{"a generated name has at most 63 bytes",
			`{apiVersion: v1, kind: Pod, metadata: {generateName: ` + n60 + `}}`, "Pod /" + n60[:58] + "xxxxx: " + n60[:58] + "xxxxx"},
		{"a prefix of 58 bytes is kept", `{apiVersion: v1, kind: Pod, metadata: {generateName: ` +
			n60[:58] + `}}`, "Pod /" + n60[:58] + "xxxxx: " + n60[:58] + "xxxxx"},
		{"a prefix of 59 bytes is truncated", `{apiVersion: v1, kind: Pod, metadata: {generateName: ` +
			n60[:57] + "ab" + `}}`, "Pod /" + n60[:57] + "axxxxx: " + n60[:57] + "axxxxx"},
		{"generateName of a workload", `{apiVersion: batch/v1, kind: Job, metadata: {generateName: mig-}}`,
			"Job /mig-xxxxx: mig-xxxxx-xxxxx"},
		{"PodTemplate", `{apiVersion: v1, kind: PodTemplate, metadata: {name: t}}`, "PodTemplate /t: t-xxxxx"},
		{"ReplicationController",
			`{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}, spec: {template: {spec: {}}}}`,
			"ReplicationController /rc: rc-xxxxx"},
		{"a controller without a template", `{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}}`,
			"ReplicationController /rc: rc-xxxxx"},
		{"ReplicaSet", `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs}}`, "ReplicaSet /rs: rs-xxxxx"},
		{"DaemonSet", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: ds}}`, "DaemonSet /ds: ds-xxxxx"},
		{"a Deployment adds a hash", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}`,
			"Deployment /web: web-xxxxxxxxxx-xxxxx"},
		{"a Deployment with a long name", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` +
			n46 + "nn" + `}}`, "Deployment /" + n46 + "nn: " + n46 + "nn-xxxxxxxxxxxxxx"},
		{"a StatefulSet's last pod",
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: svc, replicas: 11}}`,
			"StatefulSet /db: db-10 hostname=db-10 subdomain=svc"},
		{"a StatefulSet with a first ordinal",
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {ordinals: {start: 100}}}`,
			"StatefulSet /db: db-100 hostname=db-100"},
		{"Job", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}}`, "Job /j: j-xxxxx"},
		{"Indexed Job", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {completionMode: Indexed, completions: 101}}`,
			"Job /j: j-100-xxxxx hostname=j-100"},
		{"CronJob", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}}`, "CronJob /c: c-00000000-xxxxx"},
		{"List", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: ` +
			`a}}, {apiVersion: batch/v1, kind: Job, metadata: {name: b}}]}`, "Pod /a: a\nJob /b: b-xxxxx"},
		{"items of a PodList without a kind",
			`{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}`, "Pod /a: a\nPod /b: b"},
		{"documents", "---\n# nothing\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" +
			"--- # next\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n---\n", "Pod /a: a\nPod /b: b"},
		{"a document on its separator's line", "--- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", "Pod /a: a"},
		{"a document ends at dots too", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n...\n" +
			"apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n", "Pod /a: a\nPod /b: b"},
		{"a foreign kind that ends in List", "apiVersion: acme.example/v1\nkind: AllowList\n" +
			"items: [a]\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "Pod /a: a\nothers AllowList"},
		{"JSON stream", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}} {"apiVersion":"v1",` +
			`"kind":"Pod","metadata":{"name":"b"}}`, "Pod /a: a\nPod /b: b"},
		{"BOM and CRLF", "\ufeffapiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\n", "Pod /a: a"},
		{"a Rollout", `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web}, ` +
			`spec: {template: {spec: {subdomain: d, containers: [{name: c}]}}}}`, "Rollout /web: web-xxxxxxxxxx-xxxxx subdomain=d"},
		{"a JobSet", `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train, ` +
			`namespace: ml}, spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: ` +
			`{containers: [{image: i}]}}}}}, {name: b, template: {spec: {template: {spec: {hostname: h, containers: [{image: i}]}}}}}]}}`,
			"JobSet ml/train: train-xxxxx\nJobSet ml/train: train-xxxxx hostname=h"},
		{"a Knative Service in a List",
			`{apiVersion: v1, kind: List, items: [{apiVersion: serving.knative.dev/v1, kind: ` +
				`Service, metadata: {name: s}, spec: {template: {spec: {containerConcurrency: 1, containers: [{image: i}]}}}}]}`,
			"Service /s: s-xxxxx"},
		{"other kinds are skipped", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n" +
			"apiVersion: argoproj.io/v1\nkind: Rollout\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
			"Pod /a: a\nothers Service Rollout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := must.Get(kube.ParseManifest("f.yaml", []byte(tt.manifest)))(t)
			if diff := cmp.Diff(tt.want, describe(m)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func describe(m kube.Manifest) string {
	var lines []string
	for _, w := range m.Workloads {
		s := fmt.Sprintf("%s %s/%s: %s", w.Kind, w.Namespace, w.Name, w.Pod.Name)
		if h := w.Pod.Spec.Hostname; h != "" {
			s += " hostname=" + h
		}
		if d := w.Pod.Spec.Subdomain; d != "" {
			s += " subdomain=" + d
		}
		lines = append(lines, s)
	}
	if m.Others != nil {
		var kinds []string
		for _, o := range m.Others {
			kinds = append(kinds, o.Kind)
		}
		lines = append(lines, "others "+strings.Join(kinds, " "))
	}
	return strings.Join(lines, "\n")
}

// TestParseManifest_Errors: an error has the file, the document and the field.
func TestParseManifest_Errors(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	tests := []struct{ name, manifest, want string }{
		{"a JSON stream with an error", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` +
			"\n\n" + `{"apiVersion":"v1","kind":"Pod",,}` + "\n" + `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}`,
			"f.yaml:3: invalid character ',' looking for beginning of object key string"},
		{"a JSON stream that is cut short", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}` +
			"\n" + `{"apiVersion":"v1",`, "f.yaml:2: unexpected end of JSON input"},
		{"flow style after flow style", "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n" +
			"{apiVersion: v1, kind: Pod, metadata: {name: b}}\n", "f.yaml:2: a second value: separate documents with a line ---"},
		{"a mapping after a flow mapping", "{apiVersion: v1, kind: Pod, metadata: {name: a}}\nkind: Pod\n",
			"f.yaml:2: a second value: separate documents with a line ---"},
		{"a template", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
			"f.yaml:4: a key is a mapping or a list, must be a string"},
		{"bad YAML, with the file's line", pod + "---\na: [\n", "f.yaml:5: did not find expected node content"},
		{"tabs", "a:\n\tb: c\n", "f.yaml:2: found character that cannot start any token"},
		{"UTF-16", "\xff\xfea\x00", "f.yaml: encoded in UTF-16"},
		{"a name with a newline", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nnameserver 203.0.113.66\"}\n",
			`f.yaml:3:12: metadata.name: "a\nnameserver 203.0.113.66" contains a control character`},
		{"a namespace with a newline", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: \"a\\nb\"}\n",
			`f.yaml:3:21: metadata.namespace: "a\nb" contains a control character`},
		{"an item of a List",
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n" +
				"- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {dnsPolcy: None}}\n",
			`f.yaml:5:59: items[1].spec.dnsPolcy: unknown field`},
		{"binary", "\x7fELF\x02\x01\x00", "f.yaml:1:1: control characters are not allowed"},
		{"NUL", pod + "spec: {hostname: \"a\x00\"}", "f.yaml:1:1: control characters are not allowed"},
		{"a scalar", "hello\n", "f.yaml:1:1: not a Kubernetes object: is a string, must be a mapping"},
		{"no kind", "apiVersion: v1\n", "f.yaml:1:1: kind: is missing"},
		{"no apiVersion", "kind: Pod\n", "f.yaml:1:1: apiVersion: is missing"},
		{"no name", "apiVersion: v1\nkind: Pod\n", "f.yaml:1:1: metadata.name: is missing"},
		{"no name, workload", "apiVersion: apps/v1\nkind: Deployment\n", "f.yaml:1:1: metadata.name: is missing"},
		{"a misspelt kind", "apiVersion: apps/v1\nkind: Deploymnt\n", `f.yaml:2:1: kind: unknown kind "apps/v1 Deploymnt"`},
		{"a kind in the wrong group", "apiVersion: v1\nkind: Deployment\n", `f.yaml:2:1: kind: unknown kind "v1 Deployment"`},
		{"a removed version", "apiVersion: extensions/v1beta1\nkind: Deployment\n",
			`f.yaml:2:1: kind: unknown kind "extensions/v1beta1 Deployment"`},
		{"a bad apiVersion", "apiVersion: a/b/c\nkind: Pod\n", "f.yaml:1:1: apiVersion: unexpected GroupVersion string: a/b/c"},
		{"an unknown field", pod + "spec: {dnsPolcy: None}\n", `f.yaml:4:8: spec.dnsPolcy: unknown field`},
		{"two unknown fields", pod + "spec: {dnsPolcy: None, containers: [{nam: x}]}\n", "f.yaml:4:8: spec.dnsPolcy: unknown field"},
		{"the wrong case", pod + "spec: {dnspolicy: None}\n", `f.yaml:4:8: spec.dnspolicy: unknown field`},
		{"a duplicate field", pod + "spec: {dnsPolicy: None, dnsPolicy: Default}\n", `f.yaml:4: key "dnsPolicy" already set in map`},
		{"a number as an option's value", pod + "spec: {dnsConfig: {options: [{name: ndots, value: 2}]}}\n",
			"f.yaml:4:44: spec.dnsConfig.options[0].value: is a number, must be a string"},
		{"a list for dnsConfig", pod + "spec: {dnsConfig: [{options: []}]}\n", "f.yaml:4:8: spec.dnsConfig: is a list, must be a mapping"},
		{"a List in a List", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List}]\n",
			"f.yaml:3:9: items[0].items: a List inside a List is not supported"},
		{"a null item", "apiVersion: v1\nkind: PodList\nitems:\n- null\n", "f.yaml:4:3: items[0]: is null"},
		{"a number in an item of a List",
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostname: 1}}\n",
			"f.yaml:4:59: items[0].spec.hostname: is a number, must be a string"},
		{"items that are not a list", "apiVersion: v1\nkind: List\nitems: 3\n", "f.yaml:3:1: items: is a number, must be a list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := kube.ParseManifest("f.yaml", []byte(tt.manifest))
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseManifest_ReturnsValidObjectsBesideErrors(t *testing.T) {
	m, err := kube.ParseManifest("f.yaml", []byte("a: [\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"))
	if err == nil || describe(m) != "Pod /p: p" {
		t.Errorf("got %q, %v", describe(m), err)
	}
	if m.Workloads[0].At("").String() != "f.yaml:3:1" {
		t.Errorf("at %v", m.Workloads[0].At(""))
	}
}

// TestParseManifest_Expansion: a small file must not expand to a large one.
func TestParseManifest_Expansion(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	for name, text := range map[string]string{
		"aliases":     aliases.String(),
		"nested YAML": strings.Repeat("[", 100_000),
		"nested JSON": strings.Repeat(`{"a":`, 100_000),
		"nested objects": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":` +
			strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := kube.ParseManifest("f.yaml", []byte(text)); err == nil {
				t.Errorf("accepted as %q", describe(m))
			} else if !strings.HasPrefix(err.Error(), "f.yaml") {
				t.Errorf("error without the file: %.200v", err)
			}
		})
	}
}

func TestParseManifest_Size(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	fits := pod + strings.Repeat("#", kube.MaxManifest-len(pod))
	if _, err := kube.ParseManifest("f.yaml", []byte(fits)); err != nil {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	if _, err := kube.ParseManifest("f.yaml", []byte(fits+"#")); fmt.Sprint(err) != "f.yaml: larger than 33554432 bytes" {
		t.Errorf("one byte more: %v", err)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {dnsConfig: {options: [{name: a, value: b}]}}\n---\n{}")
	f.Add(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]} {}`)
	f.Add("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {completionMode: Indexed, completions: -1}\n")
	f.Add("apiVersion: v1\nkind: ReplicationController\nmetadata: {name: j}\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := kube.ParseManifest("f", []byte(text))
		for _, w := range m.Workloads {
			if w.Pod == nil || w.Pod.Name == "" || w.Pod.Spec.DNSPolicy == "" {
				t.Errorf("incomplete workload %+v", w)
			}
			kube.FromPod(w.Pod)
		}
		if err == nil && len(m.Workloads)+len(m.Others)+len(m.Notes) == 0 && !strings.Contains(text, "List") {
			t.Errorf("no object, no note and no error")
		}
	})
}

func TestWorkload_At(t *testing.T) {
	const yaml = `---
# Source: shop/templates/web.yaml
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostname: web
---
# no source
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db}
  spec:
    serviceName: db # Source: of no template
`
	const json = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}

{"apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "b"}}`
	for _, tt := range []struct {
		manifest     string
		workload     int
		field        string
		at           string
		source, kind string
	}{
		{yaml, 0, "", "f:3:1", "shop/templates/web.yaml", "Pod"},
		{yaml, 0, "spec.hostname", "f:7:3", "shop/templates/web.yaml", "Pod"},
		{yaml, 1, "items[0].spec.serviceName", "f:17:5", "", "StatefulSet"},
		{json, 0, "metadata.name", "f:1:50", "", "Pod"},
		{yaml, 1, "", "f:13:3", "", "StatefulSet"},
		{json, 1, "metadata.name", "f:4:15", "", "Pod"},
	} {
		m := must.Get(kube.ParseManifest("f", []byte(tt.manifest)))(t)
		w := m.Workloads[tt.workload]
		at := w.At(tt.field)
		if w.Kind != tt.kind || at.String() != tt.at || at.Source != tt.source || (w.Ordinals.Base != "") != (tt.kind == "StatefulSet") {
			t.Errorf("%s %q: at %v, source %q, ordinals %+v; want %+v", w.Kind, tt.field, at, at.Source, w.Ordinals, tt)
		}
	}
}

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
		m := must.Get(kube.ParseManifest("f",
			[]byte("apiVersion: "+tt.apiVersion+"\nkind: "+tt.kind+"\nmetadata: {name: w}\nspec: {"+tt.spec+"}\n")))(t)
		if got := m.Workloads[0].SelectedBy(tt.selector, tt.ordinal); got != tt.want {
			t.Errorf("%s %v %d: %v, want %v", tt.kind, tt.selector, tt.ordinal, got, tt.want)
		}
	}
}

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

// TestParseManifest_UnknownFields: a field of a newer Kubernetes is ignored and counted. One
// that is likely to be meant for DNS is an error.
func TestParseManifest_UnknownFields(t *testing.T) {
	for _, tt := range []struct{ spec, ignored, want string }{
		{"{newField: {a: 1}, containers: [{name: c, newer: 1}]}",
			"[f:4:49: spec.containers[0].newer: unknown field f:4:8: spec.newField: unknown field]", ""},
		{"{hostUsers: true}", "[]", ""},
		{"{dnsConfigs: {}}", "[]", "f:4:8: spec.dnsConfigs: unknown field; did you mean dnsConfig?"},
		{"{hostnam: a}", "[]", "f:4:8: spec.hostnam: unknown field; did you mean hostname?"},
		{"{dnsConfig: {search: [a]}}", "[]",
			"f:4:20: spec.dnsConfig.search: unknown field; dnsConfig has nameservers, searches and options"},
		{"{dnsConfig: {options: [{nme: a}]}}", "[]",
			"f:4:31: spec.dnsConfig.options[0].nme: unknown field; dnsConfig has nameservers, searches and options"},
		{"{containers: [{name: c, dnsPolicy: None}]}", "[]",
			"f:4:31: spec.containers[0].dnsPolicy: unknown field; check its spelling and its place: dnsPolicy is a field of a pod's spec"},
		{"{containers: [{nme: c}]}", "[f:4:22: spec.containers[0].nme: unknown field]", ""},
	} {
		m, err := kube.ParseManifest("f",
			[]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: "+tt.spec+"\nstatus: {hostnames: [a]}\n"))
		text := ""
		if input, ok := errors.AsType[*kube.InputError](err); ok {
			text = input.Error() + "; " + input.Hint
		}
		if text != tt.want {
			t.Errorf("%s: %s, want %s", tt.spec, text, tt.want)
		}
		var ignored []error
		for _, u := range m.Unknown {
			if e := u.InputError(); e.Field != "status.hostnames" {
				ignored = append(ignored, e)
			}
		}
		if got := fmt.Sprint(ignored); got != tt.ignored {
			t.Errorf("%s: ignored %s, want %s", tt.spec, got, tt.ignored)
		}
	}
}

func TestNoteUnknown(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}, ` +
		`"spec": {"new": 1, "newer": 1}}, {"metadata": {"name": "b"}, "status": {"new": 1}}]}`
	m := must.Get(kube.ParseManifest("f", []byte(text)))(t)
	if got := fmt.Sprint(kube.NoteUnknown(m.Unknown)); got != "f: 3 unknown fields in 2 objects ignored" {
		t.Error(got)
	}
	other, _ := kube.ParseManifest("g", []byte(text))
	if got := fmt.Sprint(kube.NoteUnknown(append(m.Unknown, other.Unknown...))); got != "6 unknown fields in 4 objects ignored" {
		t.Error(got)
	}
	if got := kube.NoteUnknown(nil); got != nil {
		t.Error(got)
	}
}

func TestObject_DecodeUnknownFields(t *testing.T) {
	m, err := kube.ParseManifest("f", []byte("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {newField: 1, clusterIp: None}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := m.Others[0].Decode(new(corev1.Service))
	if len(ignored) != 1 || fmt.Sprint(err) != "f:4:21: spec.clusterIp: unknown field" {
		t.Errorf("ignored %v, error %v", ignored, err)
	}
}
