// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
)

const nodeObjects = `apiVersion: v1
kind: Node
metadata: {name: worker}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec: {nodeName: worker, hostname: here, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, namespace: default}
spec: {nodeName: other, containers: [{name: c, image: i}]}
`

// TestAPIServerNodeIdentity is the shim with the kubelet's identity at an API server with the
// authorizers Node and RBAC: list, watch, get and events of the node's pods.
func TestAPIServerNodeIdentity(t *testing.T) {
	c := apiserver.Start(t)
	kubectl := c.Kubectl(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		return kubectl.MustRun(t, stdin, args...)
	}
	run("", "create", "serviceaccount", "default")
	run(nodeObjects, "apply", "-f", "-")
	ref := func(name string) cluster.Ref {
		t.Helper()
		return cluster.Ref{Namespace: "default", Name: name, UID: run("", "get", "pod", name, "-o", "jsonpath={.metadata.uid}")}
	}
	api := nodeClient(t, c)
	var log logbuffer.Buffer
	cfg := cluster.PodsConfig{Client: api, NodeName: "worker", Timeout: 2 * time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}

	t.Run("get", func(t *testing.T) {
		pods, err := cluster.NewPods(cfg) // does not run: each lookup is a GET
		if err != nil {
			t.Fatal(err)
		}
		absent := cluster.Ref{Namespace: "default", Name: "absent", UID: "u1"}
		for _, r := range []cluster.Ref{absent, ref("elsewhere"), absent, absent, absent, absent} {
			if _, _, err := pods.Lookup(t.Context(), r); !errors.Is(err, cluster.ErrNotFound) ||
				!strings.Contains(err.Error(), "no relationship found between node 'worker' and this object") {
				t.Errorf("%s: %v", r, err)
			}
		}
		if p, source, err := pods.Lookup(t.Context(), ref("web")); err != nil || source != cluster.FromAPI || p.Hostname != "here" {
			t.Errorf("after %d answers with 403: %+v from %q, %v", breakerLimit+1, p, source, err)
		}
	})
	t.Run("list and watch", func(t *testing.T) {
		pods, err := cluster.NewPods(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- pods.Run(ctx) }()
		fromInformer := func(name string) {
			t.Helper()
			r := ref(name)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				_, source, err := pods.Lookup(t.Context(), r)
				if source == cluster.FromInformer {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: from %q, %v\n%s", name, source, err, log.String())
				}
			}
		}
		fromInformer("web")
		run("apiVersion: v1\nkind: Pod\nmetadata: {name: later, namespace: default}\n"+
			"spec: {nodeName: worker, containers: [{name: c, image: i}]}\n", "apply", "-f", "-")
		fromInformer("later")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("events", func(t *testing.T) {
		reporter := events.NewReporter(api, "worker", events.NewDrops(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- reporter.Run(ctx) }()
		web := ref("web")
		reporter.Report(cri.Report{Sandbox: cri.Sandbox{Namespace: "default", Name: "web", UID: web.UID},
			Outcome: cri.FactsMismatch, Detail: "test"})
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			// The API server has events of its own, about Services.
			got := run("", "get", "events", "--field-selector=involvedObject.kind=Pod", "-o",
				"jsonpath={range .items[*]}{.reason} {.involvedObject.uid}{end}")
			if got == fmt.Sprintf("%s %s", events.ReasonMismatch, web.UID) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("events: %q\n%s", got, log.String())
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if out := run("", "auth", "can-i", "patch", "events", "--as=system:node:worker",
			"--as-group=system:nodes"); strings.TrimSpace(out) != "yes" {
			t.Errorf("counting events: %s", out) // a repeated event is a PATCH
		}
	})
}

// breakerLimit is the number of consecutive failures after which package watch pauses.
const breakerLimit = 5

// nodeClient returns the client of the shim with the identity of the kubelet of worker.
func nodeClient(t *testing.T, c *apiserver.Cluster) rest.Interface {
	t.Helper()
	text, err := c.Kubeconfig(c.Address(), "system:node:worker")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, `as: "system:node:worker"`, `as: "system:node:worker", as-groups: ["system:nodes"]`, 1)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := cluster.LoadConfig(file, "test")
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	api, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{})
	if err != nil {
		t.Fatal(err)
	}
	return api
}
