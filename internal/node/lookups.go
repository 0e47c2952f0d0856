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
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// LookupConfig is the configuration of [Lookups]. Equal configurations give the same lookups.
type LookupConfig struct {
	pods       cluster.PodsConfig // without Client and Logger
	kubeconfig string
	content    [sha256.Size]byte // of the kubeconfig
	inPod      bool              // without a kubeconfig, the service account of this pod is used
}

// NewLookupConfig returns the configuration of a server, with the current content of the kubeconfig. Without a kubeconfig,
// a server in a pod uses the service account of the pod, which the client reads again when it changes.
func NewLookupConfig(c v1alpha1.NodeServerConfiguration, inPod bool) LookupConfig {
	pods := cluster.PodsConfig{Manifests: c.Manifests, NodeName: c.Node.NodeName, Timeout: config.Duration(c.LookupTimeout)}
	l := LookupConfig{pods: pods, kubeconfig: c.Kubeconfig, inPod: inPod}
	if info, err := os.Stat(c.Kubeconfig); err != nil || !info.Mode().IsRegular() {
		return l // a pipe can be read only once, by the client
	}
	if data, err := os.ReadFile(c.Kubeconfig); err == nil {
		l.content = sha256.Sum256(data)
	}
	return l
}

// Lookups finds pods and reports outcomes.
type Lookups struct {
	Reporter  *Reporter
	ClientErr error // why there is no client of the API server although a kubeconfig is configured

	api  rest.Interface // nil: none
	pods *cluster.Pods
}

// NewLookups returns lookups for cfg. userAgent is sent to the API server. If the client of the API
// server cannot be created, ClientErr is set, and only static pods are found.
func NewLookups(cfg LookupConfig, userAgent string, drops *Drops, log *slog.Logger) (*Lookups, error) {
	l := &Lookups{}
	if cfg.inPod || cfg.kubeconfig != "" {
		l.api, l.ClientErr = loadClient(cfg.kubeconfig, userAgent)
	}
	l.Reporter = NewReporter(l.api, cfg.pods.NodeName, drops, log)
	cfg.pods.Client, cfg.pods.Logger = l.api, log
	var err error
	l.pods, err = cluster.NewPods(cfg.pods)
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

// Lookup returns a cri.Hook.Lookup for a mode. Force does not compare the result with the kubelet's: a mirror pod
// must not decide a static pod's DNS.
func (l *Lookups) Lookup(mode cri.Mode) func(context.Context, cri.Sandbox) (policy.Pod, error) {
	return func(ctx context.Context, s cri.Sandbox) (policy.Pod, error) {
		pod, err := l.pods.Lookup(ctx, cluster.Ref{
			Namespace: s.Namespace, Name: s.Name, UID: s.UID, Annotations: s.Annotations, NoMirror: mode == cri.Force,
		})
		switch {
		case errors.Is(err, cluster.ErrNotFound) && l.ClientErr != nil:
			err = fmt.Errorf("%w: %w", cri.ErrBadConfig, l.ClientErr)
		case errors.Is(err, cluster.ErrNotFound):
			err = fmt.Errorf("%w: %w", cri.ErrUnknownPod, err)
		}
		return pod, err
	}
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
	api, err := cluster.NewClient(c, corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &corev1.Event{})
	if err != nil && kubeconfig != "" {
		err = fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return api, err
}

// reportInterval is the time after which a lasting problem is reported again: an event is deleted
// an hour after the last one (--event-ttl of kube-apiserver).
const reportInterval = 30 * time.Minute

// FollowHost returns a task that calls changed for each change of the file of w after the call of FollowHost,
// and reports when the file is unusable, and when it is usable again.
func FollowHost(w *hostresolv.Watcher, r *Reporter, changed func()) func(context.Context) error {
	s, newer := w.Current()
	return func(ctx context.Context) error {
		interval := time.NewTicker(reportInterval)
		defer interval.Stop()
		reported, due := "", false
		for {
			if problem := hostProblem(s); problem != reported || problem != "" && due {
				r.ReportHostFile(problem)
				reported = problem
			}
			due = false
			select {
			case <-ctx.Done():
				return nil
			case <-newer:
				s, newer = w.Current()
				changed()
			case <-interval.C:
				due = true
			}
		}
	}
}

// hostProblem returns why the host's file is unusable, and what pods get instead. "": it is usable.
func hostProblem(s hostresolv.Snapshot) string {
	switch {
	case s.Problem == nil:
		return ""
	case s.File.Err == nil && len(s.File.Nameservers) > 0:
		return s.Problem.Error() + "; pods get its last usable content"
	default:
		return s.Problem.Error()
	}
}

// HostFiles returns a cri.Hook.HostFiles that reads the files of w.
func HostFiles(w *hostresolv.Watcher) func() cri.HostFiles {
	return func() cri.HostFiles {
		s := w.Reread()
		return cri.HostFiles{Pods: s.File, Kubelet: s.Kubelet}
	}
}

// LogApplied logs that a configuration was applied, and the findings about the node and the host's file.
func LogApplied(log *slog.Logger, n nodefacts.Node, h *cri.Hook) {
	log.Info("configuration applied", "mode", h.Mode, "clusterDNS", n.ClusterDNS, "clusterDomain", n.ClusterDomain,
		"resolvConf", n.ResolvConf)
	for _, found := range slices.Concat(n.Findings, h.Engine.CheckHost(h.HostFiles().Pods)) {
		log.Warn(found.Message, "reason", found.Reason, "hint", found.Hint)
	}
}
