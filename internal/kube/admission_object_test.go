// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestParseAdmissionObject_Replicas: the pod of a StatefulSet is the last one.
func TestParseAdmissionObject_Replicas(t *testing.T) {
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
		text := fmt.Sprintf(`{"metadata":{"name":"db"},"spec":{"serviceName":"ring","replicas":%d,"ordinals":{"start":%d}}}`,
			tt.replicas, tt.start)
		w, known, err := kube.ParseAdmissionObject("apps/v1", "StatefulSet", []byte(text))
		if !known || err != nil {
			t.Fatal(err)
		}
		if w.Pod.Name != tt.want || w.Pod.Spec.Hostname != tt.want || w.Pod.Spec.Subdomain != "ring" || w.Ordinals.First != tt.start {
			t.Errorf("%d replicas from ordinal %d: %s, %s, %+v; want %s", tt.replicas, tt.start,
				w.Pod.Name, w.Pod.Spec.Hostname, w.Ordinals, tt.want)
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

// comparePod compares the pod that admission reads with the one that js has when it is decoded
// completely.
func comparePod(t *testing.T, js []byte) {
	t.Helper()
	var want corev1.Pod
	if document.DecodeStrict(js, &want) != nil {
		return // not of an API server: of a duplicate field the last one does not always win
	}
	kube.SetDefaults(&want.Spec)
	w, known, err := kube.ParseAdmissionObject("v1", "Pod", js)
	if !known || err != nil {
		t.Errorf("%s: %v", js, err)
		return
	}
	own := func(a map[string]string) map[string]string {
		a = maps.Clone(a)
		maps.DeleteFunc(a, func(key, _ string) bool { return !strings.HasPrefix(key, "dnsconfigurer.dev/") })
		return a
	}
	ignored := cmpopts.IgnoreFields(policy.Pod{}, "Labels", "UID", "IPs")
	if diff := cmp.Diff(kube.FromPod(&want), kube.FromPod(w.Pod), ignored); diff != "" {
		t.Errorf("%s (-complete +admission):\n%s", js, diff)
	}
	if diff := cmp.Diff(own(want.Annotations), w.Pod.Annotations); diff != "" {
		t.Errorf("%s: annotations (-complete +admission):\n%s", js, diff)
	}
}

// podsOfLists are pods with every form of the lists and maps that are decoded in part.
var podsOfLists = []string{
	`{}`,
	`{"metadata":{"name":"web","annotations":{"a":"b"}},"spec":null}`,
	`{"metadata":{"annotations":{}},"spec":{"dnsConfig":{}}}`,
	`{"metadata":{"annotations":null},"spec":{"dnsConfig":null,"nodeSelector":null,"affinity":null}}`,
	`{"metadata":{"annotations":{"dnsconfigurer.dev/policy":"None","x":"y","dnsconfigurer.dev/ignore":"a\u00e9\n"}}}`,
	`{"spec":{"dnsConfig":{"nameservers":["1.1.1.1",null,"\u0061"],"searches":[],"options":[]}}}`,
	`{"spec":{"dnsConfig":{"nameservers":null,"searches":["a\"\\\/\b\f\n\r\tb","\ud83d\ude00\ud800"],"options":null}}}`,
	`{"spec":{"dnsConfig":{"options":[{"name":"ndots","value":"2"},{"name":"a\nb"},{},null,{"name":null,"value":null},{"value":""}]}}}`,
	"{\"spec\" : {\t\"dnsConfig\" : { \"options\" : [ { \"name\" : \"{{{\" , \"value\" : \"\xff\" } ] } } }",
	`{"spec":{"nodeSelector":{"kubernetes.io/os":"windows","a":"b"}}}`,
	`{"spec":{"nodeSelector":{"kubernetes.io\/o\u0073":"windows"}}}`,
	`{"spec":{"nodeSelector":{"a":"windows"},"os":{"name":"linux"}}}`,
}

// podsOfTerms are pods with every form of node affinity.
func podsOfTerms() (pods []string) {
	const windows = `{"key":"kubernetes.io/os","operator":"In","values":["windows"]}`
	for _, terms := range []string{
		`null`, `[]`, `[{}]`, `[null]`, `[{"matchExpressions":null}]`, `[{"matchExpressions":[]}]`, `[{"matchFields":[` + windows + `]}]`,
		`[{"matchExpressions":[` + windows + `]}]`,
		`[{"matchExpressions":[` + windows + `]},{"matchExpressions":[` + windows + `]}]`,
		`[{"matchExpressions":[` + windows + `]},{}]`,
		`[{},{"matchExpressions":[` + windows + `]}]`,
		`[{"matchExpressions":[{"key":"a","operator":"Exists"},` + windows + `,{"key":"kubernetes.io/os","operator":"Exists"}]}]`,
		`[{"matchExpressions":[{"values":["windows"],"operator":"In","key":"kubernetes.io\/os"}]}]`,
		`[{"matchExpressions":[{"key":"kubernetes.io/os","operator":"NotIn","values":["windows"]}]}]`,
		`[{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["windows","linux"]}]}]`,
		`[{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":null}]}]`,
	} {
		pods = append(pods, `{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":`+
			terms+`}}}}}`)
	}
	return pods
}

// TestParseAdmissionObject_Repeated: a review that no API server sends does not take memory for
// each repetition of options.
func TestParseAdmissionObject_Repeated(t *testing.T) {
	js := []byte(`{"spec":{"dnsConfig":{"searches":["` + strings.Repeat("{", 100_000) + `"]` +
		strings.Repeat(`,"options":null,"options":[]`, 1000) + `}}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := kube.ParseAdmissionObject("v1", "Pod", js); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d bytes for a review of %d", n, len(js))
	}
}

func TestParseAdmissionObject_Lists(t *testing.T) {
	for _, pod := range append(podsOfLists, podsOfTerms()...) {
		if problems := document.DecodeStrict([]byte(pod), new(corev1.Pod)); problems != nil {
			t.Errorf("%s: %v", pod, problems)
		}
		comparePod(t, []byte(pod))
	}
}

// TestParseAdmissionObject_Vectors compares all objects of the table, of all kinds, with the
// manifests that contain them.
func TestParseAdmissionObject_Vectors(t *testing.T) {
	table := must.Get(vectors.Load())(t)
	pods := 0
	for _, v := range table {
		var o struct{ APIVersion, Kind string }
		must.Succeed(t, json.Unmarshal(v.Object, &o))
		m, err := kube.ParseManifest(v.Name, v.Object)
		if err != nil || o.Kind == "List" {
			continue
		}
		want := m.Workloads[0]
		got, known, err := kube.ParseAdmissionObject(o.APIVersion, o.Kind, v.Object)
		if !known || err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		pods++
		if diff := cmp.Diff(want.PolicyPod(), got.PolicyPod(), cmpopts.IgnoreFields(policy.Pod{}, "Labels")); diff != "" {
			t.Errorf("%s (-manifest +admission):\n%s", v.Name, diff)
		}
		if want.Ordinals != got.Ordinals || want.Name != got.Name {
			t.Errorf("%s: %s %v, want %s %v", v.Name, got.Name, got.Ordinals, want.Name, want.Ordinals)
		}
	}
	if pods < len(table)/2 {
		t.Errorf("compared %d of %d", pods, len(table))
	}
}

func TestParseAdmissionObject_Errors(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{`"dnsConfig":7`, "dnsConfig: is a number, must be a mapping"},
		{`"dnsConfig":{"options":[{"name":"a"},{"name":"ndots","value":2}]}`, "dnsConfig.options[1].value: is a number, must be a string"},
		{`"dnsConfig":{"searches":"a"}`, "dnsConfig.searches: is a string, must be a list"},
		{`"dnsConfig":{"nameservers":["a",["b"]]}`, "dnsConfig.nameservers[1]: is a list, must be a string"},
		{`"nodeSelector":{"kubernetes.io/os":true}`, "spec.nodeSelector[kubernetes.io/os]: is a boolean, must be a string"},
	} {
		_, _, err := kube.ParseAdmissionObject("v1", "Pod", fmt.Appendf(nil, `{"spec":{%s}}`, tt.spec))
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.spec, err, tt.want)
		}
	}
}

func FuzzParseAdmissionObject(f *testing.F) {
	for _, pod := range append(podsOfLists, podsOfTerms()...) {
		f.Add([]byte(pod))
	}
	f.Fuzz(comparePod)
}

// TestParseAdmissionObject_LongTerm: of the expressions of a term only the one that requires Windows
// is kept. To compare each of 50,000 with all before it took seconds.
func TestParseAdmissionObject_LongTerm(t *testing.T) {
	const (
		other   = `{"key":"kubernetes.io/os","operator":"Exists"},`
		windows = `{"key":"kubernetes.io/os","operator":"In","values":["windows"]},`
	)
	for name, tt := range map[string]struct {
		expressions string
		kept        int
	}{
		"none":  {strings.Repeat(other, 1000), 0},
		"one":   {strings.Repeat(other, 1000) + windows + strings.Repeat(other, 1000), 1},
		"equal": {strings.Repeat(windows, 1000), 1},
	} {
		w, _, err := kube.ParseAdmissionObject("v1", "Pod", []byte(
			`{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{`+
				`"nodeSelectorTerms":[{"matchExpressions":[`+strings.TrimSuffix(tt.expressions, ",")+`]}]}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		terms := w.Pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || len(terms[0].MatchExpressions) != tt.kept {
			t.Errorf("%s: %d terms, of the first %d expressions, want %d", name, len(terms), len(terms[0].MatchExpressions), tt.kept)
		}
	}
}

// TestParseAdmissionObject_LongLists: lists with as many entries as the largest object of an API
// server can have are read; those with more are an error.
func TestParseAdmissionObject_LongLists(t *testing.T) {
	const entries = 3 << 20 / 5
	for _, tt := range []struct {
		list, entry string
		n           int
		want        string
	}{
		{"searches", `""`, entries, ""},
		{"searches", `""`, entries + 1, "dnsConfig.searches[629144]: is followed by more entries than an object of 3 MiB can have"},
		{"options", `{}`, entries + 1, "dnsConfig.options[629144]: is followed by more entries than an object of 3 MiB can have"},
	} {
		text := strings.Repeat(tt.entry+",", tt.n)
		w, _, err := kube.ParseAdmissionObject("v1", "Pod", []byte(`{"spec":{"dnsConfig":{"`+tt.list+`":[`+text[:len(text)-1]+`]}}}`))
		switch {
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%d %s: %v, want %q", tt.n, tt.list, err, tt.want)
		case tt.want == "" && (err != nil || len(w.Pod.Spec.DNSConfig.Searches) != tt.n):
			t.Errorf("%d %s: %v", tt.n, tt.list, err)
		}
	}
}
