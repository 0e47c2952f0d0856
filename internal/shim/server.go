// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/watch"
	"github.com/dnsconfigurer/dnsconfigurer/internal/systemd"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Server is the shim of a node.
type Server struct {
	Source  *config.Source[config.Shim]
	Reload  <-chan os.Signal // see daemon.Reloader.Signal
	Version string           // of the User-Agent at the API server
	Log     *slog.Logger
}

// Run serves with configuration c until ctx ends or a task of the server fails.
func (s *Server) Run(ctx context.Context, c config.Shim) error {
	api, err := newClient(c.Kubeconfig, s.Version)
	if err != nil {
		return err
	}
	pods, err := watch.New(watch.Config{Client: api, NodeName: c.Node.Name, Manifests: c.Manifests, Logger: s.Log})
	if err != nil {
		return fmt.Errorf("%w: set --node-name or node.nodeName", err)
	}
	registry := prometheus.NewRegistry()
	metrics := cri.NewMetrics(registry)
	reporter := events.NewReporter(api, c.Node.Name, s.Log)
	shim := &cri.Shim{Runtime: c.RuntimeEndpoint, DrainTimeout: c.Drain, Metrics: metrics}
	applier := &applier{shim: shim, hook: cri.Hook{Lookup: lookup(pods), Report: reporter.Report, Metrics: metrics}, log: s.Log}
	reloader := &daemon.Reloader[config.Shim]{Source: s.Source, Signal: s.Reload, Apply: applier.apply, Log: s.Log}
	if err := reloader.Start(c, registry); err != nil {
		return err
	}
	notifier, err := systemd.NewNotifier()
	if err != nil {
		return err
	}
	if shim.Listener, err = listen(c.Listen); err != nil {
		return err
	}
	group := daemon.Group{
		Tasks: []daemon.Task{reloader.Run, shim.Run, func(ctx context.Context) error { return notifier.Run(ctx, shim.Alive, s.Log) }},
		Last:  []daemon.Task{pods.Run, reporter.Run}, // calls that are drained look pods up and report
	}
	if c.HTTP != "" {
		http := daemon.HTTP{Listen: daemon.ListenTCP(c.HTTP), Metrics: registry, Ready: func() ([]string, error) { return nil, shim.Ready() }}
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return http.KeepServing(ctx, s.Log) })
	}
	s.Log.Info("serving", "listen", c.Listen, "runtime", c.RuntimeEndpoint, "node", c.Node.Name)
	return group.Run(ctx)
}

// listen returns the socket that systemd passed to the process, or a new one.
func listen(endpoint string) (net.Listener, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	socket, err := systemd.Socket()
	switch {
	case err != nil:
		return nil, err
	case socket != nil:
		return cri.Inherit(path, socket)
	}
	return cri.Listen(path)
}

// lookup returns a cri.Hook.Lookup that looks pods up in pods.
func lookup(pods *watch.Pods) func(context.Context, cri.Sandbox) (policy.Pod, error) {
	return func(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
		pod, _, err := pods.Lookup(ctx, watch.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations})
		if errors.Is(err, watch.ErrNotFound) {
			err = fmt.Errorf("%w: %w", cri.ErrUnknownPod, err)
		}
		return pod, err
	}
}

// newClient returns a client for pods and events. Without a kubeconfig it is nil.
func newClient(kubeconfig, version string) (rest.Interface, error) {
	if kubeconfig == "" {
		return nil, nil
	}
	c, err := client.LoadConfig(kubeconfig, "dnsconfigurer-shim/"+version)
	if err != nil {
		return nil, err
	}
	c.QPS = -1 // no limit: a pod takes at most one call, and package watch has a circuit breaker
	return client.New(c, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{})
}
