// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
)

// eleven is the scale of a StatefulSet to 11.
const eleven = `"kind":{"group":"autoscaling","version":"v1","kind":"Scale"},"resource":{"group":"apps",
  "version":"v1","resource":"statefulsets"},"subResource":"scale",
	"name":"cassandra-dc-east","namespace":"storage","operation":"UPDATE","object":{"spec":{"replicas":11}}`

// newScaledWebhook starts the command, and returns its address for reviews.
func newScaledWebhook(t *testing.T, args ...string) (p *dnsProcess, addr string) {
	t.Helper()
	certFile, keyFile := certs.NewAuthority(t).Write(t, t.TempDir(), "webhook")
	config := writeFile(t, "webhook.yaml", map[string]any{"apiVersion": v1alpha1.GroupVersion,
		"kind": v1alpha1.KindWebhook, "node": map[string]string{"clusterDomain": "cluster.local"}, "lameduck": "1ms",
		"tls": map[string]string{"certFile": certFile, "keyFile": keyFile}})
	p, addr = &dnsProcess{t: t, http: freeAddr(t)}, freeAddr(t)
	_, p.stop = startCommand(t,
		append([]string{"webhook", "--listen", addr, "--http", p.http, "--config", config}, args...), &p.log)
	p.ready()
	return p, addr
}

// TestWebhookScale: for each scale there is at most one request to the API server, whatever the
// reply. There is none if a busy machine exceeds webhook.OpenTimeout before it is sent.
func TestWebhookScale(t *testing.T) {
	api := kubeapi.New()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "cassandra-dc-east"}}
	set.Spec = appsv1.StatefulSetSpec{ServiceName: "cassandra-ring-001", Replicas: new(int32(10)),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SetHostnameAsFQDN: new(true)}}}
	url, err := api.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubeapi.Kubeconfig(url)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, addr := newScaledWebhook(t, "--kubeconfig", kubeconfig)
	reviews := 0
	requests := func() int { return api.Requests()["get statefulsets"] }
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"no such set", func() {}, `"allowed":true}`},
		{"a set of ten", func() { api.Apply(set) }, "spec.replicas: FQDN cassandra-dc-east-10."},
		{"forbidden", func() { api.SetFault(kubeapi.Forbid) }, `"allowed":true}`},
		{"an error inside", func() { api.SetFault(kubeapi.Fail) }, `"allowed":true}`},
		{"half a set", func() { api.SetFault(kubeapi.Truncate) }, `"allowed":true}`},
		{"no answer", func() { api.SetFault(kubeapi.Stall) }, `"allowed":true}`},
		{"come again", func() {
			api.SetFault(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			})
		}, `"allowed":true}`},
		{"the set again", func() { api.SetFault(nil) }, "spec.replicas: FQDN cassandra-dc-east-10."},
	} {
		step.change()
		before := requests()
		for got := ""; requests() == before || !strings.Contains(got, step.want); {
			_, got = reviewOf(t, addr, eleven)
			reviews++
			if n := requests(); n > reviews || !strings.Contains(got, `"allowed":true`) {
				t.Fatalf("%s: %d requests to the API server, want at most %d; %s", step.name, n, reviews, got)
			}
			if reviews == 100 {
				t.Fatalf("%s: %d requests to the API server; %s", step.name, requests()-before, got)
			}
		}
	}
	for _, want := range []string{fmt.Sprintf(`endpoint="validate",operation="UPDATE",verdict="unread"} %d`, reviews-2),
		`endpoint="validate",operation="UPDATE",verdict="warned"} 2`} {
		if metrics := get(t, p.http, "/metrics"); !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s:\n%s", want, metrics)
		}
	}
	p.stop()
}

// TestWebhookScale_NoAPI: outside a cluster, without a kubeconfig, scaling is admitted
// unchecked, and the log says so once. A configured kubeconfig must exist.
func TestWebhookScale_NoAPI(t *testing.T) {
	certFile, keyFile := certs.NewAuthority(t).Write(t, t.TempDir(), "webhook")
	config := writeFile(t, "webhook.yaml", map[string]any{"apiVersion": v1alpha1.GroupVersion,
		"kind": v1alpha1.KindWebhook, "tls": map[string]string{"certFile": certFile, "keyFile": keyFile}})
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"webhook", "--listen", freeAddr(t), "--kubeconfig", "nowhere", "--config", config},
		nil, &stdout, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "kubeconfig nowhere: no such file") {
		t.Errorf("without the kubeconfig: exit code %d, %s", code, &stderr)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	p, addr := newScaledWebhook(t)
	for range 2 {
		if _, got := reviewOf(t, addr, eleven); !strings.Contains(got, `"allowed":true}`) {
			t.Error(got)
		}
	}
	p.stop() // the log is complete
	if log := p.log.String(); strings.Count(log, "scaling of StatefulSets not checked") != 1 || strings.Contains(log, "level=WARN") {
		t.Errorf("the log:\n%s", log)
	}
}
