// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// TestAPIServerPolicies_ControllerLog: kube-controller-manager discards the warnings about the pods
// that it creates, so the policies may warn of each pod. An author sees the same warning about the
// ReplicaSet.
func TestAPIServerPolicies_ControllerLog(t *testing.T) {
	const spec = `{hostNetwork: true, dnsPolicy: ClusterFirst, containers: [{name: c, image: registry.example/c}]}`
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: alone, namespace: default}\nspec: " + spec
	const set = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web, namespace: default}\n" +
		"spec: {replicas: 5, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: " + spec + "}}"
	c := apiserver.Start(t, withoutAccounts)
	k := c.Kubectl(t)
	enforce(t, k)
	for _, manifest := range []string{pod, set} {
		if v := k.DryRun(t.Context(), manifest); len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], "dnsconfigurer-warnings") {
			t.Errorf("%s\n%+v", manifest, v)
		}
	}
	manager := c.StartControllers(t, "replicaset-controller")
	k.MustRun(t, set, "create", "-f", "-")
	w := newWebhookTest(t, c)
	poll.Until(t, "the pods", func() bool {
		pods, err := w.api.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(pods.Items) == 5
	})
	text, err := os.ReadFile(manager.LogFile)
	// client-go logs a warning of the API server from warnings.go.
	if err != nil || len(text) == 0 || strings.Contains(string(text), "dnsconfigurer") || strings.Contains(string(text), "warnings.go") {
		t.Errorf("%v: the log has a warning, or is empty:\n%s", err, text)
	}
}
