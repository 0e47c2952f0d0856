// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// TestCheckService: the limits of names from both sides, and external names with and without
// what belongs to a URL.
func TestCheckService(t *testing.T) {
	external := func(name string) admission.Service {
		return admission.Service{Name: "bank", IsExternalName: true, ExternalName: name}
	}
	for _, tt := range []struct {
		service admission.Service
		want    []string
	}{
		{admission.Service{Name: "web"}, nil},
		{admission.Service{Name: strings.Repeat("a", 63)}, nil},
		{admission.Service{Name: strings.Repeat("a", 64)}, []string{"error invalid-service-name at metadata.name"}},
		{admission.Service{Name: "my_svc", Path: "items[2]."}, []string{"error invalid-service-name at items[2].metadata.name"}},
		{external("api.bank.example"), nil},
		{external("api.bank.example."), nil},
		{external(""), []string{"error invalid-external-name at spec.externalName"}},
		{external("http://api.bank.example"), []string{"error invalid-external-name at spec.externalName"}},
		{external("2001:db8::1"), []string{"error invalid-external-name at spec.externalName"}},
		{external("192.0.2.1"), []string{"warning external-name-address at spec.externalName"}},
		{external("192.0.2.1.example"), nil},
		{admission.Service{Name: "db", Headless: true, SelectsNothing: true},
			[]string{"warning selector-matches-nothing at spec.selector"}},
		{admission.Service{Name: "db", SelectsNothing: true}, nil},
	} {
		if diff := cmp.Diff(tt.want, places(admission.CheckService(tt.service))); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.service, diff)
		}
	}
}

// TestCheckServices: a subdomain needs a headless Service of the same namespace, if the input
// has Services of that namespace.
func TestCheckServices(t *testing.T) {
	services := []admission.Service{{Namespace: "shop", Name: "db", Headless: true},
		{Namespace: "shop", Name: "web"}, {Namespace: "other", Name: "cache", Headless: true}}
	for _, tt := range []struct {
		kind, namespace, subdomain string
		want                       []string
	}{
		{"StatefulSet", "shop", "db", nil},
		{"StatefulSet", "shop", "", nil},
		{"StatefulSet", "shop", "web", []string{"warning service-not-headless at spec.serviceName"}},
		{"StatefulSet", "shop", "cache", []string{"warning service-missing at spec.serviceName"}},
		{"StatefulSet", "unknown", "cache", nil},
		{"Pod", "shop", "cache", []string{"warning subdomain-without-service at spec.subdomain"}},
		{"Pod", "shop", "web", []string{"warning service-not-headless at spec.subdomain"}},
		{"Pod", "shop", "my_svc", nil}, // the API server refuses it
	} {
		o := admission.Object{Kind: tt.kind, Name: "x", Pod: policy.Pod{Namespace: tt.namespace, Name: "x-0", Subdomain: tt.subdomain}}
		if diff := cmp.Diff(tt.want, places(admission.CheckServices([]admission.Object{o}, services)[0])); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt, diff)
		}
	}
}

func places(findings []policy.Finding) (list []string) {
	for _, f := range findings {
		list = append(list, fmt.Sprintf("%s %s at %s", f.Severity, f.Code, f.Field))
	}
	return list
}
