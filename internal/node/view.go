// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
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
func (a *Applier) countDrift(d events.Drift) (n int) {
	for _, s := range a.list() {
		if s.lastDrift() == d {
			n++
		}
	}
	return n
}

// forPods calls do for the sandboxes of a pod; with an empty name, for all.
func (a *Applier) forPods(
	ctx context.Context, namespace, name string, do func(*sandbox) (result events.RefreshResult, detail string),
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
	return a.forPods(ctx, namespace, name, func(s *sandbox) (events.RefreshResult, string) { return a.refresh(s, c) })
}

// RestorePods writes the kubelet's text back into the files of a pod; with an empty name, of
// all pods. They are left alone from then on.
func (a *Applier) RestorePods(ctx context.Context, namespace, name string) ([]v1alpha1.NodeResult, error) {
	return a.forPods(ctx, namespace, name, func(s *sandbox) (events.RefreshResult, string) {
		if err := a.restore(s); err != nil {
			return events.Failed, err.Error()
		}
		return events.WrittenBack, ""
	})
}

// Status describes the settings, and the files at their last comparison.
func (a *Applier) Status() v1alpha1.AgentStatus {
	settings := a.settings.Load()
	s := v1alpha1.AgentStatus{
		Mode: string(settings.Hook.Mode), Refresh: string(settings.Refresh),
		Pods: len(a.list()), Drift: map[string]int{}, Problems: []string{},
	}
	for _, d := range events.Drifts() {
		if n := a.countDrift(d); n > 0 {
			s.Drift[string(d)] = n
		}
	}
	return s
}
