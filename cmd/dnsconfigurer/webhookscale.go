// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
)

// How many StatefulSets are read in a second because they are scaled, and how many at
// once. Not only API servers may ask us: whoever reaches the port does, and must not be
// able to load the API server through us. A scale for which too many wait is admitted
// unseen.
const (
	scaleQPS   = 50
	scaleBurst = 100
)

// statefulSets returns what opens a StatefulSet of the API server; nil, and a line in the
// log, where nothing leads there.
func (s webhookSettings) statefulSets(log *slog.Logger) (func(ctx context.Context, namespace, name string) (io.ReadCloser, error), error) {
	c, err := s.api()
	switch {
	case err != nil && s.Kubeconfig == "": // not in a cluster, or without a token
		log.Info("the scale of StatefulSets is not judged: there is no way to the API server", "error", err)
		return nil, nil
	case err != nil:
		return nil, err
	}
	c.QPS, c.Burst = scaleQPS, scaleBurst
	apps, err := client.New(c, appsv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, namespace, name string) (io.ReadCloser, error) {
		return apps.Get().Namespace(namespace).Resource("statefulsets").Name(name).
			SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0).Stream(ctx)
	}, nil
}
