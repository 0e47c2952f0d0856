// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// TestJSON_Errors: line numbers are those of the file, whose last document is decoded.
func TestJSON_Errors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a mapping", "b: 1\na: [x, 2]\n", `{"a":["x",2],"b":1}`},
		{"empty", "# a comment\n", "null"},
		{"not closed", "\na: [\n", "line 12: did not find expected node content"},
		{"a tab", "a:\n\tb: c\n", "line 12: found character that cannot start any token"},
		{"a duplicate key", "a: 1\nb: 1\na: 2\n", `line 13: key "a" already set in map`},
		{"two duplicate keys", "a: 1\nb: 1\na: 2\nb: 2\n", `line 13: key "a" already set in map` +
			"\n" + `line 14: key "b" already set in map`},
		{"a key that looks like an error", "\"line 1: x\": 1\n\"line 1: x\": 2\n", `line 12: key "line 1: x" already set in map`},
		{"binary", "\x7fELF\x02\x01\x00", "control characters are not allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			js, err := document.JSON([]byte(tt.text), 11)
			got := string(js)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if js, err := document.LenientJSON([]byte("a: 1\na: 2\n")); err != nil || string(js) != `{"a":2}` {
		t.Errorf("LenientJSON of a duplicate key: %s, %v", js, err)
	}
	if _, err := document.LenientJSON([]byte("\na: [\n")); fmt.Sprint(err) != "line 2: did not find expected node content" {
		t.Errorf("LenientJSON of an unclosed list: %v", err)
	}
}

// TestTypeError_Field puts a wrong type in every kind of place.
func TestTypeError_Field(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"spec":{"dnsConfig":{"options":[{"name":"a"},{"name":"ndots","value":2}]}}}`,
			"spec.dnsConfig.options[1].value: is a number, must be a string"},
		{`{"spec":{"dnsConfig":[{"options":[]}]}}`, "spec.dnsConfig: is a list, must be a mapping"},
		{`{"spec":{"dnsConfig":{"options":{"a":"b"}}}}`, "spec.dnsConfig.options: is a mapping, must be a list of mappings"},
		{`{"spec":{"dnsConfig":{"nameservers":"192.0.2.1"}}}`, "spec.dnsConfig.nameservers: is a string, must be a list of strings"},
		{`{"spec":{"dnsConfig":{"nameservers":["a",["b"]]}}}`, "spec.dnsConfig.nameservers[1]: is a list, must be a string"},
		{`{"spec":{"hostNetwork":"yes"}}`, "spec.hostNetwork: is a string, must be true or false"},
		{`{"spec":{"hostname":true}}`, "spec.hostname: is a boolean, must be a string"},
		{`{"spec":{"priority":99999999999}}`, "spec.priority: is 99999999999, must be a whole number of 32 bits"},
		{`{"spec":{"activeDeadlineSeconds":"1"}}`, "spec.activeDeadlineSeconds: is a string, must be a whole number"},
		{`{"metadata":{"annotations":{"example.com/a":"x","example.com/b":1}}}`,
			"metadata.annotations[example.com/b]: is a number, must be a string"},
		{`{"metadata":{"annotations":{"a\nb":1}}}`, `metadata.annotations["a\nb"]: is a number, must be a string`},
		{`{"metadata":{"annotations":{"d":1}}}`, "metadata.annotations.d: is a number, must be a string"},
		{`{"metadata":{"annotations":{"8080":1}}}`, "metadata.annotations[8080]: is a number, must be a string"},
		{`{"spec":{"containers":[{},{"livenessProbe":{"httpGet":{"path":1}}}]}}`,
			"spec.containers[1].livenessProbe.httpGet.path: is a number, must be a string"},
		// has its own UnmarshalJSON
		{`{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}`,
			"spec.containers[0].livenessProbe.httpGet.port: is a boolean, must be a whole number of 32 bits"},
		{`[1]`, "is a list, must be a mapping"},
		{`"pod"`, "is a string, must be a mapping"},
	} {
		err := document.Decode([]byte(tt.text), new(corev1.Pod))
		if fmt.Sprint(err) != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, tt.want)
		}
		strict := errors.Join(document.DecodeStrict([]byte(tt.text), new(corev1.Pod))...)
		if fmt.Sprint(strict) != tt.want {
			t.Errorf("%s\nDecodeStrict: %v\nwant %s", tt.text, strict, tt.want)
		}
	}
}

// TestDecodeStrict_TypeErrors: all values of a wrong type are errors at once, beside unknown fields, up to ten.
func TestDecodeStrict_TypeErrors(t *testing.T) {
	const text = `{"spec":{"dnsPolcy":"None","dnsConfig":{"nameservers":"192.0.2.1","searches":[1,"a",{}],` +
		`"options":[{"name":"a"},{"value":2}]}}}`
	var got []string
	for _, err := range document.DecodeStrict([]byte(text), new(corev1.Pod)) {
		got = append(got, err.Error())
	}
	want := []string{
		"spec.dnsConfig.nameservers: is a string, must be a list of strings", "spec.dnsConfig.searches[0]: is a number, must be a string",
		"spec.dnsConfig.searches[2]: is a mapping, must be a string", "spec.dnsConfig.options[1].value: is a number, must be a string",
		`unknown field "spec.dnsPolcy"`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	many := `{"spec":{"dnsConfig":{"nameservers":[` + strings.Repeat("1,", 99) + `1]}}}`
	if n := len(document.DecodeStrict([]byte(many), new(corev1.Pod))); n != 10 {
		t.Errorf("%d errors, want 10", n)
	}
}

func TestDecode_Fields(t *testing.T) {
	const text = `{"kind":"Pod","spec":{"Hostname":"a","dnsPolcy":"None","hostname":"h","hostname":"i"}}`
	var pod corev1.Pod
	if err := document.Decode([]byte(text), &pod); err != nil || pod.Spec.Hostname != "i" {
		t.Errorf("Decode: host name %q, %v; want the last one", pod.Spec.Hostname, err)
	}
	got := fmt.Sprint(errors.Join(document.DecodeStrict([]byte(text), new(corev1.Pod))...))
	want := `unknown field "spec.Hostname"` + "\n" + `unknown field "spec.dnsPolcy"` + "\n" + `duplicate field "spec.hostname"`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DecodeStrict (-want +got):\n%s", diff)
	}
}

// largeObject has a field of each type of JSON, in structs like those of admission.
type largeObject struct {
	Spec struct {
		Hostname string `json:"hostname"`
		Replicas *int32 `json:"replicas"`
		Network  bool   `json:"network"`
		Items    []struct {
			Value string `json:"value"`
		} `json:"items"`
		Names map[string]string `json:"names"`
	} `json:"spec"`
}

// TestDecodeLarge compares DecodeLarge with Decode: the values, and whether and why there are none.
func TestDecodeLarge(t *testing.T) {
	for _, text := range []string{
		`{"spec":{"hostname":"a","replicas":3,"network":true,"items":[{"value":"b"},{},null],"names":{"c":"d"}},"status":[1,{"x":2}]}`,
		`{"spec":{"Hostname":"A","hostname":"b","hostname":"c","HOSTNAME":"d"},"Spec":{"hostname":"e"}}`,
		`{"spec":{"hostname":null,"replicas":null,"network":null,"items":null,"names":null}}`,
		`{"spec":{"replicas":1,"hostname":"a"},"spec":{"hostname":"b"}}`,
		"{\"spec\":{\"hostname\":\"\xff\\ud800\\u0041\"}}",
		`null`, ``, `{`, `{}x`, `{"spec":{}},`, `{"spec":{"hostname":"a}}`, `[1]`, `"a"`, `{"spec":1}`,
		`{"spec":{"hostname":1}}`, `{"spec":{"hostname":[]}}`, `{"spec":{"network":"yes"}}`, `{"spec":{"items":{}}}`,
		`{"spec":{"items":[{"value":"a"},{"value":1}]}}`, `{"spec":{"items":[1]}}`, `{"spec":{"replicas":"1"}}`,
		`{"spec":{"replicas":1.5}}`, `{"spec":{"replicas":99999999999}}`, `{"spec":{"replicas":1e1}}`, `{"spec":{"names":{"c":true}}}`,
	} {
		var want, got largeObject
		wantErr := document.Decode([]byte(text), &want)
		err := document.DecodeLarge([]byte(text), &got)
		if wantErr == nil && err == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-Decode +DecodeLarge):\n%s", text, diff)
			}
			continue
		}
		// The words for syntax errors differ.
		_, typeError := errors.AsType[*document.TypeError](wantErr)
		if (err == nil) != (wantErr == nil) || typeError && err.Error() != wantErr.Error() {
			t.Errorf("%s\n got %v\nwant %v", text, err, wantErr)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("spec: {dnsConfig: {options: [{name: ndots, value: 2}]}}\n", 1)
	f.Add(`{"metadata":{"annotations":{"a/b":[1]}},"spec":[]}`, 7)
	f.Add("a: 1\na: 2\n", 3)
	f.Fuzz(func(t *testing.T, text string, first int) {
		js, err := document.JSON([]byte(text), first)
		if err != nil {
			return
		}
		for _, err := range append(document.DecodeStrict(js, new(corev1.Pod)), document.Decode(js, new(corev1.Pod))) {
			if err != nil && strings.Contains(err.Error(), "Go struct") {
				t.Errorf("the error mentions a Go type: %v", err)
			}
		}
	})
}
