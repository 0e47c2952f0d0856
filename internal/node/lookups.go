// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// LookupConfig is the configuration of [Lookups]. Equal configurations give the same lookups.
type LookupConfig struct {
	kubeconfig string
	content    [sha256.Size]byte // of the kubeconfig
	inCluster  bool              // with the service account of this pod
	manifests  string
	node       string
	timeout    time.Duration // of a lookup; 0: the default
}

// NewLookupConfig returns a configuration with the current content of the kubeconfig.
func NewLookupConfig(kubeconfig, manifests, node string) LookupConfig {
	l := LookupConfig{kubeconfig: kubeconfig, manifests: manifests, node: node}
	if info, err := os.Stat(kubeconfig); err != nil || !info.Mode().IsRegular() {
		return l // a pipe can be read only once, by the client
	}
	if data, err := os.ReadFile(kubeconfig); err == nil {
		l.content = sha256.Sum256(data)
	}
	return l
}

// NewInClusterConfig returns a configuration with the service account of this pod, which the
// client reads again when it changes.
func NewInClusterConfig(manifests, node string) LookupConfig {
	return LookupConfig{inCluster: true, manifests: manifests, node: node}
}

// WithTimeout returns the configuration with a timeout of a lookup. 0: [cluster.DefaultTimeout].
func (cfg LookupConfig) WithTimeout(d time.Duration) LookupConfig {
	cfg.timeout = d
	return cfg
}

// newClient returns the client of cfg. Without an API server it is nil.
func (cfg LookupConfig) newClient(userAgent string) (rest.Interface, error) {
	if cfg.inCluster {
		return loadClient("", userAgent)
	}
	return NewClient(cfg.kubeconfig, userAgent)
}

// Lookups finds pods and reports outcomes.
type Lookups struct {
	Reporter  *events.Reporter
	ClientErr error // why there is no client of the API server although a kubeconfig is configured

	api  rest.Interface // nil: none
	pods *cluster.Pods
}

// LookupMetrics are the metrics of all Lookups of a process.
type LookupMetrics struct {
	drops    *events.Drops
	requests *cluster.PodMetrics
}

// NewLookupMetrics returns metrics registered with r. The names of some begin with prefix. It panics if r
// has them already.
func NewLookupMetrics(r prometheus.Registerer, prefix string) *LookupMetrics {
	return &LookupMetrics{events.NewDrops(r), cluster.NewPodMetrics(r, prefix)}
}

// NewReporter returns a reporter that logs, without an API server.
func (m *LookupMetrics) NewReporter(log *slog.Logger) *events.Reporter {
	return events.NewReporter(nil, "", m.drops, log)
}

// NewLookups returns lookups for cfg. userAgent is sent to the API server. If the client of the API
// server cannot be created, ClientErr is set, and only static pods are found.
func NewLookups(cfg LookupConfig, userAgent string, m *LookupMetrics, log *slog.Logger) (*Lookups, error) {
	l := &Lookups{}
	l.api, l.ClientErr = cfg.newClient(userAgent)
	var err error
	l.pods, err = cluster.NewPods(cluster.PodsConfig{Client: l.api, NodeName: cfg.node, Manifests: cfg.manifests, Timeout: cfg.timeout,
		Metrics: m.requests, Logger: log})
	l.Reporter = events.NewReporter(l.api, cfg.node, m.drops, log)
	return l, err
}

// HasClient reports whether there is a client of the API server.
func (l *Lookups) HasClient() bool { return l.api != nil }

// stopping returns the number of pods whose containers are being stopped, see [cluster.Pods.Stopping].
// Without a client it is 0, and known.
func (l *Lookups) stopping() (pods int, known bool) {
	if l.api == nil {
		return 0, true
	}
	return l.pods.Stopping()
}

// Run keeps the pods up to date and sends events until ctx ends.
func (l *Lookups) Run(ctx context.Context) error {
	return daemon.RunAll(ctx, l.pods.Run, l.Reporter.Run)
}

// Lookup is a cri.Hook.Lookup for Generate and Observe.
func (l *Lookups) Lookup(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
	return l.lookup(ctx, cluster.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations})
}

// LookupForced is a cri.Hook.Lookup for Force, which does not compare the result with the
// kubelet's: a mirror pod must not decide a static pod's DNS.
func (l *Lookups) LookupForced(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
	return l.lookup(ctx, cluster.Ref{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations, NoMirror: true})
}

// lookup is Lookup for a pod. Its errors wrap those of package cri.
func (l *Lookups) lookup(ctx context.Context, ref cluster.Ref) (policy.Pod, error) {
	pod, _, err := l.pods.Lookup(ctx, ref)
	switch {
	case errors.Is(err, cluster.ErrNotFound) && l.ClientErr != nil:
		err = fmt.Errorf("%w: %w", cri.ErrBadConfig, l.ClientErr)
	case errors.Is(err, cluster.ErrNotFound):
		err = fmt.Errorf("%w: %w", cri.ErrUnknownPod, err)
	}
	return pod, err
}

// NewClient returns a client for pods, events and nodes. Without a kubeconfig it is nil.
func NewClient(kubeconfig, userAgent string) (rest.Interface, error) {
	if kubeconfig == "" {
		return nil, nil
	}
	return loadClient(kubeconfig, userAgent)
}

// loadClient is NewClient for a kubeconfig that is configured. "": with the service account of this pod.
func loadClient(kubeconfig, userAgent string) (rest.Interface, error) {
	c, err := cluster.LoadConfig(kubeconfig, userAgent)
	if err != nil {
		return nil, err
	}
	c.QPS = -1 // no limit: a pod takes at most one call, and package watch has a circuit breaker
	api, err := cluster.NewClient(c, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{}, &corev1.Node{})
	if err != nil && kubeconfig != "" {
		err = fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return api, err
}
