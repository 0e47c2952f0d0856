// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

func TestNew_Invalid(t *testing.T) {
	_, err := admission.New(policy.Node{ClusterDomain: "two words"}, nil)
	if node, ok := errors.AsType[*policy.NodeError](err); !ok || node.Field != "clusterDomain" {
		t.Errorf("an invalid cluster domain: %v", err)
	}
	if _, err := admission.New(policy.Node{}, &resolvconf.File{Err: fs.ErrNotExist}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing host file: %v", err)
	}
}

// TestCheck_NodeProblems: problems of the node are not findings of its pods; `config check`
// reports them.
func TestCheck_NodeProblems(t *testing.T) {
	for name, host := range map[string]string{
		"servers of the node only": "nameserver 127.0.0.53\nnameserver fe80::1%eth0\n",
		"a domain too long to use": "nameserver 192.0.2.53\nsearch " + strings.Repeat("a", 64) + ".example\n",
		"nothing":                  "",
	} {
		rules := must.Get(admission.New(policy.Node{ResolvConf: "/etc/resolv.conf"}, new(resolvconf.Parse(host))))(t)
		for _, p := range []policy.Policy{policy.Default, policy.ClusterFirst} {
			o := admission.Object{Kind: admission.KindPod, Name: "web", Pod: policy.Pod{Namespace: "shop", Name: "web", Policy: p}}
			if found := vectors.Check(t, rules, o); found != nil {
				t.Errorf("%s, %s: %+v", name, p, found)
			}
		}
	}
}

func TestCollisions(t *testing.T) {
	a62, a63 := strings.Repeat("a", 62), strings.Repeat("a", 63)
	pod := func(namespace, name string) admission.Object {
		return admission.Object{Kind: admission.KindPod, Name: name, Pod: policy.Pod{Namespace: namespace, Name: name}}
	}
	overridden, short, onHost := pod("shop", "b"), pod("shop", a63+"w"), pod("shop", a63+"v")
	overridden.Pod.HostnameOverride = new(a63 + "z")
	short.Pod.Hostname = "short"
	onHost.Pod.HostNetwork = true
	objects := []admission.Object{
		pod("shop", a63),        // fits
		pod("shop", a63+"x"),    // truncated to the first
		pod("other", a63+"y"),   // in another namespace
		pod("other", a63+"y"),   // the same name: the API server reports it
		pod("shop", a62+"-cut"), // truncated to 62
		overridden, short, onHost,
	}
	var got []string
	for i, found := range admission.Collisions(objects) {
		for _, f := range found {
			got = append(got, fmt.Sprintf("%d %s %s", i, f.Code, f.Field))
		}
	}
	if diff := cmp.Diff([]string{"1 hostname-collision metadata.name", "5 hostname-collision spec.hostnameOverride"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

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
		{"StatefulSet", "shop", "", []string{"warning service-missing at spec.serviceName"}},
		{"StatefulSet", "shop", "web", []string{"warning service-not-headless at spec.serviceName"}},
		{"StatefulSet", "shop", "cache", []string{"warning service-missing at spec.serviceName"}},
		{"StatefulSet", "unknown", "cache", nil},
		{"Pod", "shop", "cache", []string{"warning service-missing at spec.subdomain"}},
		{"Pod", "shop", "web", []string{"warning service-not-headless at spec.subdomain"}},
		{"Pod", "shop", "my_svc", nil}, // the API server refuses it
	} {
		o := admission.Object{Kind: tt.kind, Name: "x", Pod: policy.Pod{Namespace: tt.namespace, Name: "x-0", Subdomain: tt.subdomain}}
		if diff := cmp.Diff(tt.want, places(admission.CheckServices([]admission.Object{o}, services)[0])); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt, diff)
		}
	}
}

// TestCheckServices_Overlays: of several Services with a name the nearest in the tree counts.
func TestCheckServices_Overlays(t *testing.T) {
	service := func(file string, headless bool) admission.Service {
		return admission.Service{Namespace: "shop", Name: "db", File: file, Headless: headless}
	}
	services := []admission.Service{
		service("base/service.yaml", true), service("overlays/a/service.yaml", false), service("overlays/b/deep/service.yaml", true),
		service("overlays/b/service.yaml", false), service("overlays/b/deep/other.yaml", false),
	}
	const problem = "Service shop/db is not headless: the names of the pods do not resolve; of 5 such Services that in "
	for file, want := range map[string]string{
		"base/db.yaml":                 "",
		"base/db/statefulset.yaml":     "",
		"overlays/a/db.yaml":           problem + "overlays/a/service.yaml is the nearest",
		"overlays/b/db.yaml":           problem + "overlays/b/service.yaml is the nearest",
		"overlays/b/deep/db.yaml":      "", // as near as other.yaml
		"overlays/b/deep/down/db.yaml": "",
		"overlays/c/db.yaml":           problem + "overlays/a/service.yaml is the nearest",
	} {
		o := admission.Object{Kind: "StatefulSet", Name: "db", File: file}
		o.Pod = policy.Pod{Namespace: "shop", Name: "db-0", Subdomain: "db"}
		got := ""
		for _, f := range admission.CheckServices([]admission.Object{o}, services)[0] {
			got += f.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

func places(findings []policy.Finding) (list []string) {
	for _, f := range findings {
		list = append(list, fmt.Sprintf("%s %s at %s", f.Severity, f.Code, f.Field))
	}
	return list
}

// TestCheckAnnotations: annotations of this project have an effect on pods only, and only with
// certain values.
func TestCheckAnnotations(t *testing.T) {
	const kep = "dnsconfigurer.dev/policy"
	all := map[string]string{kep: "None", admission.SkipAnnotation: "true", admission.RefreshAnnotation: "never"}
	for _, tt := range []struct {
		name, kind, path string
		object, pod      map[string]string
		want             []string
	}{
		{"none", "Deployment", "spec.template.", nil, nil, nil},
		{"in the template", "Deployment", "spec.template.", nil, all, nil},
		{"in both", "Deployment", "spec.template.", all, all, nil},
		{"a Pod", "Pod", "", all, all, nil},
		{"in the object", "Deployment", "spec.template.", all, nil, []string{
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/policy]",
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/refresh]",
			"warning annotation-not-in-template at metadata.annotations[dnsconfigurer.dev/skip]",
		}},
		{"one of a List", "CronJob", "items[2].spec.jobTemplate.spec.template.",
			map[string]string{kep: "None", "team": "shop", "dnsconfigurer.dev/ignore": "x"},
			map[string]string{admission.SkipAnnotation: "true"},
			[]string{
				"warning annotation-not-in-template at items[2].metadata.annotations[dnsconfigurer.dev/policy]",
				"warning annotation-value at items[2].metadata.annotations[dnsconfigurer.dev/ignore]",
			}},
		{"an unknown code", "Pod", "", nil, map[string]string{admission.IgnoreAnnotation: "x"},
			[]string{"warning annotation-value at metadata.annotations[dnsconfigurer.dev/ignore]"}},
		{"known codes", "Job", "spec.template.", nil, map[string]string{admission.IgnoreAnnotation: " hostname-cut , fqdn-too-long,"}, nil},
		{"other values", "Deployment", "spec.template.", nil,
			map[string]string{admission.SkipAnnotation: "yes", admission.RefreshAnnotation: ""}, []string{
				"warning annotation-value at spec.template.metadata.annotations[dnsconfigurer.dev/skip]",
				"warning annotation-value at spec.template.metadata.annotations[dnsconfigurer.dev/refresh]",
			}},
		{"not skipped", "Pod", "", nil, map[string]string{admission.SkipAnnotation: "false"}, nil},
	} {
		o := admission.Object{Kind: tt.kind, Pod: policy.Pod{Path: tt.path}}
		if diff := cmp.Diff(tt.want, places(admission.CheckAnnotations(o, tt.object, tt.pod))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	o := admission.Object{Kind: "Pod"}
	for _, f := range admission.CheckAnnotations(o, nil, map[string]string{admission.SkipAnnotation: strings.Repeat("x", 1<<20)}) {
		if len(f.Message) > 1<<10 {
			t.Errorf("a message of %d bytes", len(f.Message))
		}
	}
}

// TestAnnotations: the annotations are those that the nodes read.
func TestAnnotations(t *testing.T) {
	if admission.SkipAnnotation != cri.SkipAnnotation || admission.RefreshAnnotation != node.RefreshAnnotation {
		t.Error("a node reads another annotation")
	}
}
