// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// setRequest records what a shim has done with the request that created the sandbox; nil: there is no shim.
// s.mu must not be held.
func (a *Applier) setRequest(s *sandbox, q *podfile.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q == nil || s.request != nil && *q == (podfile.Request{}) {
		return
	}
	s.request = q
	a.process(Requested, &step{sandbox: s})
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

// acceptDecision makes the outcome Unchanged if the file has the decision, although the kubelet
// computes another text: a shim has edited the request. s.mu must be held.
func (s *sandbox) acceptDecision(settings *Settings, host hostFiles, r *cri.Report) {
	if r.Outcome != cri.FactsMismatch {
		return
	}
	d := settings.Hook.Engine.Decide(s.pod, host().Pods)
	dns := normalize(d.Config())
	if d.Error == "" && len(dns.Nameservers)+len(dns.Searches)+len(dns.Options) > 0 && dns.Equal(s.known) {
		r.Outcome, r.Detail, r.DNS, r.Findings = cri.Unchanged, "", d.Config(), d.Findings
	}
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

// adoptRequest verifies the runtime's file of s. r is the decision for its text. s.mu must be
// held.
func (a *Applier) adoptRequest(settings *Settings, s *sandbox, host hostFiles, r cri.Report) (State, cri.Report) {
	kubelet, seen := s.known, !r.Sandbox.Unverified
	if q := s.request; isDecided(q) && s.known.Equal(sentDNS(q)) {
		seen = true
		d := settings.Hook.Engine.Decide(s.pod, host().Pods)
		r.Outcome, r.Detail, r.DNS = cri.Outcome(q.Outcome), "", d.Config()
		kubelet = resolvconf.Parse(q.Kubelet).Config()
	}
	next := stateOf(r.Outcome)
	if next.follows() {
		s.want = normalize(r.DNS)
		if seen {
			a.confirmBy(settings, s, host, kubelet)
		}
		if !s.known.Equal(s.want) {
			a.queue.push(s.ID, causeVerify)
		}
	}
	switch {
	case s.request.Outcome != "":
		r.Outcome = cri.Outcome(s.request.Outcome)
	case r.Outcome == cri.Edited:
		r.Outcome = cri.Observed // nothing was written
	}
	return next, r
}

// logFailure logs why the file of a sandbox cannot follow changes.
func (a *Applier) logFailure(r cri.Report) {
	switch r.Outcome {
	case cri.ForeignFile, cri.PodChanged, cri.WriteFailed:
		a.Log.Warn("resolv.conf of a pod cannot follow changes", "namespace", excerpt.Text(r.Sandbox.Namespace, excerpt.MaxValue),
			"pod", excerpt.Text(r.Sandbox.Name, excerpt.MaxValue), "outcome", r.Outcome,
			"detail", excerpt.Text(r.Detail, excerpt.MaxMessage))
	}
}
