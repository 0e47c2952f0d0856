// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/watch"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// lookupConfig is the configuration of lookups.
type lookupConfig struct {
	kubeconfig string
	content    [sha256.Size]byte // of the kubeconfig
	manifests  string
	node       string
}

func newLookupConfig(c config.Shim) lookupConfig {
	l := lookupConfig{kubeconfig: c.Kubeconfig, manifests: c.Manifests, node: c.Node.Name}
	if info, err := os.Stat(c.Kubeconfig); err != nil || !info.Mode().IsRegular() {
		return l // a pipe can be read only once, by the client
	}
	if data, err := os.ReadFile(c.Kubeconfig); err == nil {
		l.content = sha256.Sum256(data)
	}
	return l
}

// lookups finds pods and reports outcomes.
type lookups struct {
	api       rest.Interface // nil: none
	clientErr error          // why there is none although a kubeconfig is configured
	pods      *watch.Pods
	reporter  *events.Reporter
}

// newLookups returns lookups for cfg. If the client of the API server cannot be created,
// static pods are found all the same.
func newLookups(cfg lookupConfig, version string, drops *events.Drops, log *slog.Logger) (*lookups, error) {
	l := &lookups{}
	l.api, l.clientErr = newClient(cfg.kubeconfig, version)
	var err error
	l.pods, err = watch.New(watch.Config{Client: l.api, NodeName: cfg.node, Manifests: cfg.manifests, Logger: log})
	l.reporter = events.NewReporter(l.api, cfg.node, drops, log)
	return l, err
}

// run keeps the pods up to date and sends events until ctx ends.
func (l *lookups) run(ctx context.Context) error {
	return daemon.RunAll(ctx, l.pods.Run, l.reporter.Run)
}

// lookup is a cri.Hook.Lookup for Generate and Observe.
func (l *lookups) lookup(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
	return l.find(ctx, watch.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations})
}

// lookupForced is a cri.Hook.Lookup for Force, which does not compare the result with the
// kubelet's: a mirror pod must not decide a static pod's DNS.
func (l *lookups) lookupForced(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
	return l.find(ctx, watch.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations, NoMirror: true})
}

func (l *lookups) find(ctx context.Context, ref watch.Ref) (policy.Pod, error) {
	pod, _, err := l.pods.Lookup(ctx, ref)
	switch {
	case errors.Is(err, watch.ErrNotFound) && l.clientErr != nil:
		err = fmt.Errorf("%w: %w", cri.ErrBadConfig, l.clientErr)
	case errors.Is(err, watch.ErrNotFound):
		err = fmt.Errorf("%w: %w", cri.ErrUnknownPod, err)
	}
	return pod, err
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
	api, err := client.New(c, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return api, nil
}
