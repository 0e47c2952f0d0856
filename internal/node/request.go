// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
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
