// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

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
	m, err := kube.ParseManifest("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
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
