// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Pods returns all sandboxes with their files as they are now.
func (a *Applier) Pods() []v1alpha1.NodePod {
	settings := a.settings.Load()
	pods := []v1alpha1.NodePod{}
	for _, s := range a.list() {
		pods = append(pods, s.view(settings))
	}
	return pods
}

// view describes s and its file.
func (s *sandbox) view(settings *Settings) v1alpha1.NodePod {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := v1alpha1.NodePod{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, Sandbox: s.ID, Outcome: string(s.reported),
		Refresh: s.scope(settings), Path: s.path, Restored: s.state == Restored,
	}
	if s.err == nil {
		p.Policy, p.Source = string(cmp.Or(s.pod.Policy, policy.ClusterFirst)), "spec"
		if s.pod.Override != "" {
			p.Policy, p.Source = string(s.pod.Override), "annotation"
		}
	}
	if !s.refreshed.IsZero() {
		p.LastRefresh = new(s.refreshed)
	}
	if s.path == "" {
		return p
	}
	f := openContent(settings, s)
	defer f.close()
	p.Actual = string(f.text)
	if f.err != nil {
		p.Error = f.err.Error()
	}
	if s.state.follows() && s.err == nil {
		p.Expected, p.Drift = s.want.String(), string(f.drift(s))
	}
	return p
}

// scope returns the refresh scope that applies to s.
func (s *sandbox) scope(settings *Settings) string {
	switch v := s.annotation(RefreshAnnotation); v {
	case "always", "never":
		return v
	}
	return string(cmp.Or(settings.Refresh, ScopeOff))
}

// countDrift returns the number of files with this kind of drift at the last comparison.
func (a *Applier) countDrift(d Drift) (n int) {
	for _, s := range a.list() {
		if s.lastDrift() == d {
			n++
		}
	}
	return n
}

// forPods calls do for the sandboxes of a pod; with an empty name, for all.
func (a *Applier) forPods(
	ctx context.Context, namespace, name string, do func(*sandbox) (result RefreshResult, detail string),
) ([]v1alpha1.NodeResult, error) {
	results := []v1alpha1.NodeResult{}
	for _, s := range a.list() {
		if name != "" && (s.Namespace != namespace || s.Name != name) {
			continue
		}
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		result, detail := do(s)
		results = append(results, v1alpha1.NodeResult{
			Namespace: s.Namespace, Name: s.Name, Result: cmp.Or(string(result), "skipped"), Detail: detail,
		})
	}
	if len(results) == 0 && name != "" {
		return results, fmt.Errorf("%w: %s/%s: dnsconfigurer pods lists those of this node", ErrUnknownPod, namespace, name)
	}
	return results, nil
}

// RefreshPods rewrites the files of a pod; with an empty name, of all pods that permit it. For
// one pod the refresh scope, annotations and changes by the pod do not matter.
func (a *Applier) RefreshPods(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error) {
	c := causeCommand
	if name == "" {
		c = causeAll
	}
	return a.forPods(ctx, namespace, name, func(s *sandbox) (RefreshResult, string) { return a.refresh(s, c) })
}

// RestorePods writes the kubelet's text back into the files of a pod; with an empty name, of
// all pods. They are left alone from then on.
func (a *Applier) RestorePods(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error) {
	return a.forPods(ctx, namespace, name, func(s *sandbox) (RefreshResult, string) {
		if err := a.restore(s); err != nil {
			return Failed, err.Error()
		}
		return WrittenBack, ""
	})
}

// Status describes the settings, and the files at their last comparison.
func (a *Applier) Status() v1alpha1.AgentStatus {
	settings := a.settings.Load()
	s := v1alpha1.AgentStatus{
		Mode: string(settings.Hook.Mode), Refresh: string(settings.Refresh),
		Pods: len(a.list()), Drift: map[string]int{}, Problems: []string{},
	}
	for _, d := range Drifts() {
		if n := a.countDrift(d); n > 0 {
			s.Drift[string(d)] = n
		}
	}
	return s
}

// Metrics counts the work of an [Applier]. The label values are a closed set.
type Metrics struct {
	outcomes  *prometheus.CounterVec
	create    prometheus.Histogram
	refreshes *prometheus.CounterVec
}

// newMetrics returns metrics registered with r. It panics if r has them already.
func newMetrics(r prometheus.Registerer) *Metrics {
	outcomes := append(cri.Outcomes(), cri.Late, cri.ForeignFile, cri.PodChanged, cri.Unverified, cri.WriteFailed, cri.Restored)
	return &Metrics{
		outcomes: daemon.NewCounterVec(r, "dnsconfigurer_agent_decisions_total", "Decisions for sandboxes, by outcome.",
			"outcome", outcomes...),
		create: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
			Name:    "dnsconfigurer_agent_create_seconds",
			Help:    "Time that the agent adds to the creation of a container.",
			Buckets: prometheus.ExponentialBuckets(0.00005, 4, 9), // 50 us to 3.3 s
		}),
		refreshes: daemon.NewCounterVec(r, "dnsconfigurer_agent_refreshes_total",
			"Files of running pods that were compared with a new decision, by result.", "result", RefreshResults()...),
	}
}

// RegisterDrift registers a gauge for each kind of drift.
func (a *Applier) RegisterDrift(r prometheus.Registerer) {
	for _, d := range Drifts() {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "dnsconfigurer_agent_drifted_files",
			Help:        "Files of running pods that differ from their decision, by kind.",
			ConstLabels: prometheus.Labels{"drift": string(d)},
		}, func() float64 { return float64(a.countDrift(d)) }))
	}
}

func (m *Metrics) count(o cri.Outcome) {
	m.outcomes.WithLabelValues(string(o)).Inc()
}

func (m *Metrics) countRefresh(r RefreshResult) {
	m.refreshes.WithLabelValues(string(r)).Inc()
}
