// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// deployedObject returns the object of type T in a file of deploy.
func deployedObject[T any](t *testing.T, file string) T {
	t.Helper()
	text := must.Get(os.ReadFile("../../deploy/" + file))(t)
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if o, ok := object.(T); ok {
			return o
		}
	}
	t.Fatalf("%s has no %T", file, *new(T))
	panic("unreachable")
}

// TestDeploy_ClusterDNS runs the command as in the manifests: their configuration is valid, the
// command accepts their arguments, and uses exactly the rights of their role. The tests in
// deploy compare the manifests with each other.
func TestDeploy_ClusterDNS(t *testing.T) {
	pod := deployedObject[*appsv1.Deployment](t, "cluster-dns/deployment.yaml").Spec.Template.Spec
	args := slices.Clone(pod.Containers[0].Args)
	at := slices.Index(args, "--config") + 1
	dir := t.TempDir()
	configFile, kubeconfig := filepath.Join(dir, filepath.Base(args[at])), filepath.Join(dir, "kubeconfig")
	api := kubeapi.New()
	api.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"}}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("sendInitialEvents") { // an old API server without WatchList
			http.Error(w, "forbidden unless the feature gate WatchList is enabled", http.StatusUnprocessableEntity)
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	text := deployedObject[*corev1.ConfigMap](t, "cluster-dns/config.yaml").Data[filepath.Base(configFile)]
	for file, text := range map[string]string{configFile: text, kubeconfig: kubeapi.Kubeconfig(server.URL)} {
		must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"config", "check", configFile}, nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("config check: exit code %d\n%s%s", code, &stdout, &stderr)
	}
	c := must.Get(dnsnode.ClusterDNSKind().FromFile(configFile).Load())(t)
	lameduck := config.Duration(c.Lameduck)
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < lameduck+dnsnode.Drain+5*time.Second {
		t.Errorf("the pod has %v to terminate, and needs %v for new queries and %v for those in flight",
			grace, lameduck, dnsnode.Drain)
	}

	args[at] = configFile
	p := &dnsProcess{t: t, addr: freeAddr(t), http: freeAddr(t)}
	text = strings.NewReplacer("/var/lib/dnsconfigurer/", dir+"/", "lameduck: 10s", "lameduck: 0s",
		"resolvConf: /etc/resolv.conf", `resolvConf: ""`).Replace(text)
	must.Succeed(t, os.WriteFile(configFile, []byte(text), 0o600))
	_, p.stop = startCommand(t, append(args, "--listen", p.addr, "--http", p.http, "--kubeconfig", kubeconfig), &p.log)
	p.ready()
	if got := p.ask("web.shop.svc.cluster.local.", 1); got != "10.96.0.9" {
		t.Errorf("web.shop: %s\n%s", got, p.log.String())
	}
	p.stop()
	if _, err := os.Stat(filepath.Join(dir, "dns.snapshot")); err != nil {
		t.Error(err)
	}
	allowed, used := map[string]bool{}, map[string]bool{}
	for _, rule := range deployedObject[*rbacv1.ClusterRole](t, "cluster-dns/rbac.yaml").Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				allowed[fmt.Sprint(verb, " ", resource)] = true
			}
		}
	}
	for request := range api.Requests() {
		used[request] = true
	}
	if diff := cmp.Diff(allowed, used); diff != "" {
		t.Errorf("rights of the role and requests (-role +requests):\n%s", diff)
	}
}
