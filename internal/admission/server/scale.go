// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

// The limits on reading StatefulSets that are scaled, in calls per second and at once. Any
// client that reaches the port can send a review, and must not be able to load the API
// server through this one. Scaling that exceeds the limits is admitted unchecked.
const (
	scaleQPS   = 50
	scaleBurst = 100
)

// newStatefulSetReader returns a function that reads a StatefulSet from the API server. It is
// nil if no API server is configured.
func (s *Server) newStatefulSetReader(c config.Webhook) (func(ctx context.Context, namespace, name string) (io.ReadCloser, error), error) {
	cfg, err := client.LoadConfig(c.Kubeconfig, s.userAgent())
	switch {
	case err != nil && c.Kubeconfig == "": // outside a cluster, or without a token
		s.Log.Info("scaling of StatefulSets not checked: no API server", "error", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	cfg.QPS, cfg.Burst = scaleQPS, scaleBurst
	apps, err := client.New(cfg, appsv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
		return apps.Get().Namespace(namespace).Resource("statefulsets").Name(name).
			SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Stream(ctx)
	}, nil
}
