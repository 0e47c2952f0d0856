// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// TestFindPod: every pod of a StatefulSet is found. An error has a hint and few names.
func TestFindPod(t *testing.T) {
	text := "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {replicas: 3, ordinals: {start: 1}}}\n"
	for i := range 7 {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: web%d}}\n", i)
	}
	m := must.Get(kube.ParseManifest("f", []byte(text)))(t)
	for _, tt := range []struct{ name, pod, want, hint string }{
		{"shop/db", "db-3", "", ""},
		{"shop/db-1", "db-1", "", ""},
		{"shop/db-3", "db-3", "", ""},
		{"web0", "web0", "", ""},
		{"shop/db-0", "",
			"no pod or workload shop/db-0: found only shop/db, default/web0, " +
				"default/web1, default/web2, default/web3 and 3 more", ""},
		{"shop/db-01", "",
			"no pod or workload shop/db-01: found only shop/db, default/web0, " +
				"default/web1, default/web2, default/web3 and 3 more", ""},
		{"db", "", "no pod or workload default/db: found only default/web0, default/web1, " +
			"default/web2, default/web3, default/web4 and 3 more", "did you mean shop/db?"},
		{"shpo/db", "", "no pod or workload shpo/db: found only shop/db, " +
			"default/web0, default/web1, default/web2, default/web3 and 3 more", "did you mean shop/db?"},
	} {
		w, err := lookup.FindPod(m.Workloads, tt.name, "default", "")
		if err == nil && (w.Pod.Name != tt.pod || w.Ordinals.Base != "" && w.Pod.Spec.Hostname != tt.pod) ||
			err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %s %s", tt.name, err, tt.pod, tt.want)
		}
		if e, ok := errors.AsType[*kube.InputError](err); ok && tt.hint != "" && e.Hint != tt.hint {
			t.Errorf("%s: hint %q, want %q", tt.name, e.Hint, tt.hint)
		}
	}
}

// TestFindPod_Workload: the list of a cluster has the pods of a workload, not the workload.
func TestFindPod_Workload(t *testing.T) {
	text := ""
	for _, pod := range []string{"shop/db-0", "shop/web-6b7c9d-x2x4z", "bank/web-55d8f7-q9k2l", "shop/webs-0"} {
		namespace, name, _ := strings.Cut(pod, "/")
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}}\n", name, namespace)
	}
	m := must.Get(kube.ParseManifest("f", []byte(text)))(t)
	for name, want := range map[string]kube.InputError{
		"bank/web": {Hint: "did you mean bank/web-55d8f7-q9k2l?", Err: errors.New("no pod or workload bank/web: " +
			"found only bank/web-55d8f7-q9k2l, shop/db-0, shop/web-6b7c9d-x2x4z, shop/webs-0")},
		"deployment/web": {Hint: "did you mean shop/web-6b7c9d-x2x4z?", Err: errors.New("no Deployment shop/web: " +
			"found only shop/db-0, shop/web-6b7c9d-x2x4z, shop/webs-0, bank/web-55d8f7-q9k2l")},
	} {
		_, err := lookup.FindPod(m.Workloads, name, "shop", "")
		if e, ok := errors.AsType[*kube.InputError](err); !ok || e.Error() != want.Error() || e.Hint != want.Hint {
			t.Errorf("%s: %v, %+v; want %v, %s", name, err, e, want.Err, want.Hint)
		}
	}
}

// TestFindPod_Kind: KIND/NAME is what kubectl prints and takes. A namespace that exists is meant
// before a kind.
func TestFindPod_Kind(t *testing.T) {
	m, err := kube.ParseManifest("f", []byte(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {replicas: 3}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: db, namespace: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: job}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, namespace, kind, pod, want string }{
		{"statefulset/db", "shop", "StatefulSet", "db-0", ""},
		{"sts/db", "shop", "StatefulSet", "db-0", ""},
		{"StatefulSets/db", "shop", "StatefulSet", "db-0", ""},
		{"deployment.apps/db", "shop", "Deployment", "db-xxxxxxxxxx-xxxxx", ""},
		{"job/web", "shop", "Pod", "web", ""},
		{"sts/db", "default", "", "", "no StatefulSet default/db: found only shop/db, shop/db, job/web"},
		{"sts/db-0", "shop", "", "", "no StatefulSet shop/db-0: found only shop/db, shop/db, job/web"},
		{"service/db", "shop", "", "", "no pod or workload service/db: found only shop/db, shop/db, job/web"},
	} {
		w, err := lookup.FindPod(m.Workloads, tt.name, tt.namespace, "")
		if err == nil && (w.Kind != tt.kind || w.Pod.Name != tt.pod) || fmt.Sprint(err) != cmp.Or(tt.want, "<nil>") {
			t.Errorf("%s in %s: %+v, %v; want %s %s %s", tt.name, tt.namespace, w, err, tt.kind, tt.pod, tt.want)
		}
	}
}
