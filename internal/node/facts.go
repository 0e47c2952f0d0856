// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"sync"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// facts is the set of node facts that a decision depends on, a bit for each policy.Origin.
type facts uint

// nodeFacts are the origins that the kubelet's own DNS can confirm.
const nodeFacts facts = 1<<policy.FromHost | 1<<policy.FromClusterDNS | 1<<policy.FromClusterDomain | 1<<policy.FromNodeIP

// factsOf returns the node facts that the nameservers and search domains of d come from.
func factsOf(d *policy.Decision) (f facts) {
	for _, entries := range [][]policy.Entry{d.Nameservers, d.Searches} {
		for _, e := range entries {
			f |= 1 << e.Source.Origin
		}
	}
	return f & nodeFacts
}

// confirmation is what is known about the node facts of the settings: those that the DNS which
// the kubelet computed for a pod has confirmed. Facts of a wrong file would otherwise reach
// every running pod at once, and no other text than ours is left to compare with.
type confirmation struct {
	mu        sync.Mutex
	of        string // Settings.Facts
	confirmed facts
	awaited   facts // of files that were not rewritten
}

// reset forgets what was confirmed if the node facts differ.
func (c *confirmation) reset(of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of != of {
		c.of, c.confirmed, c.awaited = of, 0, 0
	}
}

// confirm adds facts, and reports whether a file waits for one of them.
func (c *confirmation) confirm(f facts) (awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	awaited = f&c.awaited != 0
	c.confirmed |= f
	c.awaited &^= f
	return awaited
}

// covers reports whether all facts of f are confirmed. If not, the file waits for the others.
func (c *confirmation) covers(f facts) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := f &^ c.confirmed
	c.awaited |= missing
	return missing == 0
}

// confirmBy confirms the node facts with the DNS that the kubelet has computed for the pod, if it follows from
// them. Pods that wait for it are refreshed.
func (a *Applier) confirmBy(st *step, kubelet resolvconf.Config) {
	if !st.computes(kubelet) {
		return
	}
	pod := st.pod
	pod.Override = "" // the kubelet does not know it
	d := st.settings.Hook.Engine.Decide(pod, st.host().Pods)
	if a.facts.confirm(factsOf(&d)) {
		a.refreshAll(causeHost)
	}
}

// podInterval is the time between two rewrites of a file that changes of the pod's annotations
// cause.
const podInterval = 10 * time.Second

// FollowedAnnotations returns the annotations whose changes a running pod follows.
func FollowedAnnotations() []string {
	return []string{policy.OverrideAnnotation, RefreshAnnotation, cri.SkipAnnotation}
}

// PodChanged decides the pod with this UID again, after a change of its annotations.
func (a *Applier) PodChanged(uid string) {
	for _, s := range a.list() {
		if s.UID == uid {
			a.schedule(s, causePod, 0)
		}
	}
}

// delay reports whether the file of s was rewritten less than podInterval ago. Then it is
// due after it.
func (a *Applier) delay(s *sandbox) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := podInterval - time.Since(s.refreshed)
	if s.refreshed.IsZero() || wait <= 0 {
		return false
	}
	a.schedule(s, causePod, wait)
	return true
}

// updateAnnotations replaces the annotations of s by those that the API server has now, if the
// settings or the pod want that its file follows changes. s.mu must be held.
func (s *sandbox) updateAnnotations(settings *Settings) {
	if settings.Annotations == nil {
		return
	}
	values, ok := settings.Annotations(s.UID)
	if !ok || (settings.Refresh == ScopeOff || settings.Refresh == "") && values[RefreshAnnotation] != "always" {
		return
	}
	s.current = maps.Clone(s.Annotations)
	if s.current == nil {
		s.current = map[string]string{}
	}
	for _, name := range FollowedAnnotations() {
		delete(s.current, name)
	}
	maps.Copy(s.current, values)
	s.pod.Override = policy.Policy(values[policy.OverrideAnnotation])
}

// annotation returns the value of an annotation as it is now. s.mu must be held.
func (s *sandbox) annotation(name string) string {
	if s.current != nil {
		return s.current[name]
	}
	return s.Annotations[name]
}

// setRequest records what a shim has done with the request that created the sandbox; nil: there is no shim.
// s.mu must not be held.
func (a *Applier) setRequest(s *sandbox, q *podfile.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q == nil || s.request != nil && *q == (podfile.Request{}) {
		return
	}
	s.request = q
	a.process(Requested, newStep(a.settings.Load(), s))
}

// isDecided reports whether the kubelet's DNS followed from the node facts of the shim.
func isDecided(q *podfile.Request) bool {
	if q == nil {
		return false
	}
	switch cri.Outcome(q.Outcome) {
	case cri.Edited, cri.Unchanged, cri.Observed:
		return true
	}
	return false
}

// sentDNS returns the DNS that the runtime has got.
func sentDNS(q *podfile.Request) resolvconf.Config {
	if cri.Outcome(q.Outcome) == cri.Edited {
		return resolvconf.Parse(q.Decision).Config()
	}
	return resolvconf.Parse(q.Kubelet).Config()
}

// runtimeText returns the kubelet's text of a file that has the text of the runtime, nil if it is
// not known. s.mu must be held.
func (s *sandbox) runtimeText(text []byte) []byte {
	switch {
	case isDecided(s.request):
		return []byte(s.request.Kubelet)
	case s.recognized.as == asEdited:
		return nil
	}
	return text
}

// adoptRequest verifies the runtime's file. r is the decision for its text.
func (a *Applier) adoptRequest(st *step, r cri.Report) (State, cri.Report) {
	q, kubelet, seen := st.request, st.known, !r.Sandbox.Unverified
	if isDecided(q) && st.known.Equal(sentDNS(q)) {
		seen = true
		r.Outcome, r.Detail, r.DNS = cri.Outcome(q.Outcome), "", st.decision().Config()
		kubelet = resolvconf.Parse(q.Kubelet).Config()
	}
	next := stateOf(r.Outcome)
	if next.follows() {
		st.want = normalize(r.DNS)
		if seen {
			a.confirmBy(st, kubelet)
		}
		a.verifyLater(st.sandbox)
	}
	switch {
	case q.Outcome != "":
		r.Outcome = cri.Outcome(q.Outcome)
	case r.Outcome == cri.Edited:
		r.Outcome = cri.Observed // nothing was written
	}
	return next, r
}
