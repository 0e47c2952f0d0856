// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
)

// TestAPIServer tests what other tests rely on: objects survive a kill of the server, invalid
// objects are refused, and an administrator can impersonate a user without rights.
func TestAPIServer(t *testing.T) {
	c := apiserver.Start(t)
	config, err := c.Config()
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	services := api.CoreV1().Services("default")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	made, err := services.Create(ctx, service, metav1.CreateOptions{})
	if err != nil || len(made.Spec.ClusterIPs) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	service.Name = "UPPER"
	if _, err := services.Create(ctx, service, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a bad name: %v", err)
	}

	c.API.Kill()
	c.Etcd.Kill()
	if _, err := services.Get(ctx, "web", metav1.GetOptions{}); err == nil || c.API.PID() != 0 {
		t.Error("a server that was killed answers")
	}
	for _, start := range []func() error{c.Etcd.Start, c.API.Start, func() error { return c.Ready(ctx) }} {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := services.Get(ctx, "web", metav1.GetOptions{}); err != nil || again.Spec.ClusterIP != made.Spec.ClusterIP {
		t.Errorf("%+v, %v", again, err)
	}

	config.Impersonate.UserName = "guest"
	if api, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Services("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights can list: %v", err)
	}
}
