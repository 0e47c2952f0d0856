// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxdns

import (
	"context"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Request is the outcome of the request that created a sandbox through a shim.
type Request struct {
	Outcome  cri.Outcome
	Kubelet  resolvconf.Config // of the request
	Decision resolvconf.Config // for Edited, Unchanged and Observed
}

// decided reports whether the kubelet's DNS followed from the node facts.
func (r *Request) decided() bool {
	return r != nil && (r.Outcome == cri.Edited || r.Outcome == cri.Unchanged || r.Outcome == cri.Observed)
}

// sent returns the DNS that the runtime has got.
func (r *Request) sent() resolvconf.Config {
	if r.Outcome == cri.Edited {
		return r.Decision
	}
	return r.Kubelet
}

// Adopt adds a sandbox whose request a shim has forwarded. path is that of its file. The file is
// verified, and rewritten only by refreshes. r is nil if the request is not known: another
// process has forwarded it. A later call with a request replaces that.
func (a *Applier) Adopt(ctx context.Context, e podfile.Sandbox, path string, r *Request) {
	s := a.add(ctx, e, a.settings.Load().Synced)
	if s == nil {
		return
	}
	s.mu.Lock()
	s.shim, s.path = true, path
	if r != nil {
		s.request, s.finished = r, false
	}
	s.mu.Unlock()
	a.runTask(s, func() { a.writeLate(s, path) })
}

// Retain removes all sandboxes except those with the IDs of keep.
func (a *Applier) Retain(keep map[string]bool) {
	for _, s := range a.list() {
		if !keep[s.ID] {
			a.remove(s.ID)
		}
	}
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
		s.edited = true
		r.Outcome, r.Detail, r.DNS, r.Findings = cri.Unchanged, "", d.Config(), d.Findings
	}
}

// runtimeText returns the kubelet's text of a file that has the text of the runtime, nil if it is
// not known. s.mu must be held.
func (s *sandbox) runtimeText(text []byte) []byte {
	switch {
	case s.request.decided():
		return []byte(s.request.Kubelet.String())
	case s.edited:
		return nil
	}
	return text
}

// adoptRequest verifies the runtime's file of s. r is the decision for its text. s.mu must be
// held.
func (a *Applier) adoptRequest(settings *Settings, s *sandbox, host hostFiles, r cri.Report) cri.Report {
	kubelet, seen := s.known, !r.Sandbox.Unverified
	if q := s.request; q.decided() && s.known.Equal(normalize(q.sent())) {
		seen = true
		d := settings.Hook.Engine.Decide(s.pod, host().Pods)
		r.Outcome, r.Detail, r.DNS = q.Outcome, "", d.Config()
		kubelet = q.Kubelet
	}
	s.verified = r.Outcome == cri.Unchanged || r.Outcome == cri.Observed || r.Outcome == cri.Edited
	if s.verified {
		s.want = normalize(r.DNS)
		if seen {
			a.confirmBy(settings, s, host, kubelet)
		}
		if !s.known.Equal(s.want) {
			a.queue.push(s.ID, causeVerify)
		}
	}
	switch {
	case s.request != nil:
		r.Outcome = s.request.Outcome
	case r.Outcome == cri.Edited:
		r.Outcome = cri.Observed // nothing was written
	}
	return r
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
