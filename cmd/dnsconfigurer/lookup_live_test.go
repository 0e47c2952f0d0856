// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// liveCluster serves a cluster with the pod shop/web-0 and the Service shop/payments. It returns the
// path of a kubeconfig.
func liveCluster(t *testing.T) (*kubeapi.Server, string) {
	t.Helper()
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	api := kubeapi.New()
	api.Apply(
		&corev1.Namespace{ObjectMeta: meta("", "shop")}, &corev1.Namespace{ObjectMeta: meta("", "kube-system")},
		&corev1.Service{ObjectMeta: meta("kube-system", "kube-dns"),
			Spec: corev1.ServiceSpec{ClusterIP: "10.43.0.10", ClusterIPs: []string{"10.43.0.10"}}},
		&corev1.Service{ObjectMeta: meta("shop", "payments"), Spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "payments-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "payments"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.9"}}}},
		&corev1.Pod{ObjectMeta: meta("shop", "web-0"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
	)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(path, []byte(kubeapi.Kubeconfig(server.URL)), 0o600))
	return api, path
}

// TestLookup_Live looks names up with the objects of a live cluster.
func TestLookup_Live(t *testing.T) {
	api, kubeconfig := liveCluster(t)
	lookup := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		args = append([]string{"lookup", "--kubeconfig", kubeconfig, "--resolv-conf", "", "--pod", "shop/web-0"}, args...)
		code = run(t.Context(), args, nil, &out, &errs)
		return code, out.String(), errs.String()
	}

	code, stdout, stderr := lookup("payments", "A", "-o", "json")
	var r v1alpha1.LookupResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if !slices.Equal(r.Addresses, []string{"10.244.1.9"}) || len(r.Queries) != 1 || r.Queries[0].Server != "10.43.0.10" {
		t.Errorf("%s", stdout)
	}
	want := []string{"get configmaps", "list endpointslices", "list namespaces", "list pods", "list services"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(api.Requests()))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	api.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubelet-config"},
		Data: map[string]string{"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
			"clusterDNS: [10.43.0.11]\nclusterDomain: corp.example\n"}})
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"payments"}, exitOK, "payments.shop.svc.corp.example.  A     10.43.0.11  NOERROR  10.244.1.9"},
		{[]string{"--cluster-dns", "192.0.2.1", "--cluster-domain", "cluster.local", "payments"}, exitOK,
			"payments.shop.svc.cluster.local.  A     192.0.2.1  NOERROR  10.244.1.9"},
		{[]string{"payment"}, exitFailed, "no Service payment in namespace shop"},
		{[]string{"web.team"}, exitFailed, "namespace team does not exist"},
		{[]string{"--pod", "shop/web", "payments"}, exitFailed, "did you mean shop/web-0?"},
		{[]string{"-f", "web.yaml", "payments"}, exitUsage, "--kubeconfig and -f: set one of them"},
		{[]string{"-R", "payments"}, exitUsage,
			"--recursive has no effect on a live cluster: leave it out, or set -f instead of --kubeconfig and --context"},
		{[]string{"--pod", "/web-0", "payments"}, exitUsage, `namespace "" of the pod: want a DNS label such as shop`},
		{[]string{"--pod", "../web-0", "payments"}, exitUsage, `namespace ".." of the pod: want a DNS label such as shop`},
	} {
		if code, stdout, stderr := lookup(tt.args...); code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%q: exit code %d, want %d and %q\n%s%s", tt.args, code, tt.code, tt.want, stdout, stderr)
		}
	}
}

// TestLookup_LiveFailures: an API server that does not answer ends the command with what to do.
func TestLookup_LiveFailures(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(*kubeapi.Server)
		want  string
	}{
		{"forbidden", func(s *kubeapi.Server) { s.SetFault(kubeapi.Forbid, "list") },
			"no permission to list services: docs/debugging.md has a ClusterRole; or write the objects that matter to a file"},
		{"silent", func(s *kubeapi.Server) { s.SetFault(kubeapi.Stall, "list") },
			"not finished in time; or write the objects that matter to a file, and set -f"},
		{"cut", func(s *kubeapi.Server) { s.SetFault(kubeapi.Truncate, "list") },
			"list services: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api, kubeconfig := liveCluster(t)
			tt.fault(api)
			var stdout, stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			code := run(ctx, []string{"lookup", "--kubeconfig", kubeconfig, "--pod", "shop/web-0", "payments"}, nil, &stdout, &stderr)
			if code != exitFailed || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("exit code %d, want %q\n%s%s", code, tt.want, &stdout, &stderr)
			}
		})
	}
}
