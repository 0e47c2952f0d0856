// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"errors"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// notSeenAtStart follows the difference of a file in the report: the node facts may be right.
const notSeenAtStart = "; the agent did not see the file before the containers started: " +
	"they may have changed it, or the host's resolv.conf may have changed since"

// create writes the file of s before a container is created, if the pod is known. When e has
// expired, the container may have written the file.
func (a *Applier) create(s *sandbox, e *podfile.Event) {
	first, original := e.First, [sha256.Size]byte{}
	if first {
		original = a.digest(s.ID, e.Path)
		if e.HasExpired() {
			first, original = false, [sha256.Size]byte{}
		}
	}
	if s.large.Load() { // the events of other pods do not wait for this one
		a.runTask(s, func() {
			s.mu.Lock()
			a.seen(s, e, original)
			s.mu.Unlock()
			a.writeLate(s, e.Path)
		})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.seen(s, e, original)
	switch {
	case errors.Is(s.err, errPending):
	case s.large.Load(): // looked up meanwhile
		a.runTask(s, func() { a.writeLate(s, e.Path) })
	default:
		st := newStep(a.settings.Load(), s)
		st.first = first
		a.process(Ready, st)
	}
}

// seen records the path of the file of s, and the digest of its text before the first container.
// s.mu must be held.
func (a *Applier) seen(s *sandbox, e *podfile.Event, original [sha256.Size]byte) {
	s.path = e.Path
	if e.First && s.state == New {
		s.original = original
	}
}

// digest returns the digest of the file, or zero if it cannot be read: the late write reports
// the reason.
func (a *Applier) digest(id, path string) (sum [sha256.Size]byte) {
	f, err := podfile.Open(a.settings.Load().Directories, id, path)
	if err != nil {
		return sum
	}
	defer f.Close()
	if text, err := f.Read(); err == nil {
		sum = sha256.Sum256(text)
	}
	return sum
}

// writeLate writes the file of s, which running containers may read, if the pod is known.
func (a *Applier) writeLate(s *sandbox, path string) {
	s.mu.Lock()
	s.path = path
	ready := !errors.Is(s.err, errPending)
	s.mu.Unlock()
	if !ready {
		return
	}
	settings, done := a.takeTurn(s)
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	a.process(Ready, newStep(settings, s))
}

// takeTurn returns the settings when it is the turn of the pod of s, see cri.Hook.Turn. s.mu must
// not be held: events of the pod need it.
func (a *Applier) takeTurn(s *sandbox) (settings *Settings, done func()) {
	s.mu.Lock()
	pod := s.pod
	s.mu.Unlock()
	settings = a.settings.Load()
	return settings, settings.Hook.Turn(pod)
}

// finish reports the outcome if it has changed.
func (a *Applier) finish(s *sandbox, r cri.Report) {
	if r.Outcome == s.reported {
		return
	}
	s.reported = r.Outcome
	switch failed := r.Outcome == cri.ForeignFile || r.Outcome == cri.PodChanged || r.Outcome == cri.WriteFailed; {
	case s.request == nil:
		a.report(r)
	case failed: // the shim has reported its decision
		a.Log.Warn("resolv.conf of a pod cannot follow changes", "namespace", excerpt.Text(r.Sandbox.Namespace, excerpt.MaxValue),
			"pod", excerpt.Text(r.Sandbox.Name, excerpt.MaxValue), "outcome", r.Outcome,
			"detail", excerpt.Text(r.Detail, excerpt.MaxMessage))
	}
}

// report counts and reports r. A panic in the reporter is contained.
func (a *Applier) report(r cri.Report) {
	defer func() {
		if recover() != nil {
			a.Metrics.count(cri.Panicked)
		}
	}()
	r.Detail = excerpt.Text(r.Detail, excerpt.MaxMessage)
	a.Metrics.count(r.Outcome)
	a.settings.Load().Hook.Report(r)
}

// write decides and writes, in the turn of the pod, and returns the next State.
func (a *Applier) write(st *step) (State, cri.Report) {
	f := openContent(st.settings, st.sandbox)
	defer f.close()
	if f.err != nil {
		return Foreign, st.failed(f.err)
	}
	switch f.origin {
	case podfile.Written, podfile.Unfinished:
		st.recognized = recognition{}
		if err := a.adopt(st, f); err != nil {
			return Foreign, st.failed(err)
		}
		return Ours, st.report(cri.Unchanged, "")
	case podfile.Changed:
		return Foreign, st.failed(podfile.ErrChanged)
	case podfile.Restored:
		st.before = Ours
		return Restored, st.report(cri.Restored, "")
	}
	return a.replace(st, f)
}

func (st *step) report(o cri.Outcome, detail string) cri.Report {
	return cri.Report{Sandbox: st.describe(), Mode: st.settings.Hook.Mode, Outcome: o, Detail: detail}
}

// failed returns the report about an error of the file.
func (st *step) failed(err error) cri.Report {
	o := cri.WriteFailed
	switch {
	case errors.Is(err, podfile.ErrForeign), errors.Is(err, podfile.ErrTooLarge):
		o = cri.ForeignFile
	case errors.Is(err, podfile.ErrChanged):
		o = cri.PodChanged
	}
	return st.report(o, err.Error())
}

// decision returns the decision for the pod, which must be known, with valid settings.
func (st *step) decision() *policy.Decision {
	if st.decided == nil {
		st.decided = new(st.settings.Hook.Engine.Decide(st.pod, st.host().Pods))
	}
	return st.decided
}

// hasDecision reports whether the decision is a DNS configuration.
func (st *step) hasDecision() bool {
	d := st.decision()
	return d.Error == "" && len(d.Nameservers)+len(d.Searches)+len(d.Options) > 0
}

// kubelet returns what a kubelet with the node facts of the settings computes for the pod.
func (st *step) kubelet() resolvconf.Config {
	return st.settings.Hook.Engine.KubeletConfig(st.pod, st.host().Kubelet)
}

// computes reports whether the kubelet computes dns.
func (st *step) computes(dns resolvconf.Config) bool {
	return normalize(dns).Equal(normalize(st.kubelet()))
}

// learnAsCreated records what the kubelet's text of f, with the digest sum, shows if nothing has written it
// since the runtime created it, although the start of the sandbox was not seen. A text that the kubelet does
// not compute from the node facts does not confirm them: they may be wrong, or the host's file may have changed.
func (st *step) learnAsCreated(f *content, sum [sha256.Size]byte) {
	if st.original != ([sha256.Size]byte{}) || st.err != nil || !f.file.IsAsCreated() {
		return
	}
	computed := st.computes(f.dns)
	switch {
	case computed || st.settings.Hook.Mode == cri.Force:
		st.original = sum
	case st.recognized.sum != sum && st.request == nil:
		// The kubelet's text of an earlier time: the decision is due if it is not what the kubelet computes now.
		st.recognized = recognition{sum, asDue}
		if st.computes(st.decision().Config()) {
			st.recognized.as = asKubelet
		}
	}
}

// replace decides the DNS configuration of the sandbox, whose file has the text of the kubelet, and
// writes it into the file unless the text is right already.
func (a *Applier) replace(st *step, f *content) (State, cri.Report) {
	sum := sha256.Sum256(f.text)
	st.learnAsCreated(f, sum)
	request := st.describe()
	request.DNS, request.HasDNS, request.FromFile, request.Unverified = f.dns, true, true, sum != st.original
	st.known = f.dns
	r := a.decide(st, request, sum)
	if st.request != nil {
		return a.adoptRequest(st, r)
	}
	next := stateOf(r.Outcome)
	if next.follows() && !request.Unverified {
		a.confirmBy(st, st.known)
	}
	if r.Outcome != cri.Edited {
		st.want = normalize(r.DNS)
		return next, r
	}
	if err := f.file.Replace(f.text, r.DNS.String(), st.runtimeText(f.text)); err != nil {
		return Foreign, st.failed(err)
	}
	st.recognized = recognition{}
	st.known, st.want = normalize(r.DNS), normalize(r.DNS)
	if !st.first {
		r.Outcome = cri.Late
		a.touchLater(st.sandbox)
	}
	return next, r
}

// stateOf returns the State of a file with this outcome of its decision.
func stateOf(o cri.Outcome) State {
	switch o {
	case cri.Unchanged, cri.Observed:
		return Kubelet
	case cri.Edited:
		return Ours
	}
	return Foreign
}

// decide returns the decision for the sandbox, whose file has the text of request with the digest sum,
// and records what it shows about this text.
func (a *Applier) decide(st *step, request cri.Sandbox, sum [sha256.Size]byte) cri.Report {
	r := st.settings.Hook.DecidePod(request, st.pod, st.err, st.host)
	switch compared := r.Mode != cri.Force || request.Unverified; {
	case r.Outcome == cri.Unchanged:
		st.recognized = recognition{sum, asKubelet}
	case r.Outcome == cri.Observed, r.Outcome == cri.Edited && compared:
		st.recognized = recognition{sum, asDue}
	case r.Outcome != cri.FactsMismatch: // Edited, too: the text may be none that the kubelet computes
	case st.recognized.sum == sum:
		return a.decideLater(st, request)
	case st.hasDecision() && normalize(st.decision().Config()).Equal(st.known): // a shim has edited the request
		d := st.decision()
		r.Outcome, r.Detail, r.DNS, r.Findings = cri.Unchanged, "", d.Config(), d.Findings
		st.recognized = recognition{sum, asEdited}
	case request.Unverified && st.request == nil:
		r.Outcome, r.Detail = cri.Unverified, r.Detail+notSeenAtStart
	}
	return r
}

// decideLater returns the decision for a text that the kubelet has computed from the node facts of an
// earlier time. The file follows changes from now on, as before. Only a decision that is due is
// written at once, when the node facts are confirmed.
func (a *Applier) decideLater(st *step, request cri.Sandbox) cri.Report {
	hook := st.settings.Hook
	request.DNS, request.HasDNS = resolvconf.Config{}, false // the node facts of now do not give it
	r := hook.DecidePod(request, st.pod, st.err, st.host)
	if r.Outcome != cri.Edited && r.Outcome != cri.Observed {
		return r
	}
	switch d := st.decision(); {
	case normalize(r.DNS).Equal(st.known):
		r.Outcome = cri.Unchanged
	case r.Outcome == cri.Observed:
	case st.recognized.as != asDue:
		r.Outcome = cri.Unchanged
		a.schedule(st.sandbox, causeVerify, 0)
	case isUnreachable(&st.pod, d):
		r.Outcome, r.Detail = cri.Observed, unreachable
	case hook.Mode != cri.Force && !a.facts.covers(factsOf(d)):
		r.Outcome, r.Detail = cri.Observed, unconfirmed
	}
	return r
}

// adopt keeps the text that a previous process has written to f, and verifies it later: the facts may
// have changed since. It completes a text that is not finished. Only an original text that was seen before the
// first container confirms node facts: the pod can write comments.
func (a *Applier) adopt(st *step, f *content) error {
	st.known = f.dns
	if st.err != nil {
		return nil
	}
	st.want = normalize(st.decision().Config())
	original := f.original
	if original != nil && st.original == sha256.Sum256(original) {
		a.confirmBy(st, resolvconf.Parse(string(original)).Config())
	}
	defer a.verifyLater(st.sandbox)
	if f.origin != podfile.Unfinished {
		return nil
	}
	if original == nil {
		original = []byte(st.kubelet().String())
	}
	if st.known = st.want; st.decision().Error != "" || len(st.want.Nameservers) == 0 {
		st.known = resolvconf.Parse(string(original)).Config()
	}
	if err := f.file.Replace(f.text, st.known.String(), original); err != nil {
		return err
	}
	a.touchLater(st.sandbox)
	return nil
}

// verifyLater schedules a comparison of s if its file does not have the decision. s.mu must be held.
func (a *Applier) verifyLater(s *sandbox) {
	if !s.known.Equal(s.want) {
		a.schedule(s, causeVerify, 0)
	}
}

// normalize returns c as it is read from a file: without duplicates and trailing dots.
func normalize(c resolvconf.Config) resolvconf.Config {
	return resolvconf.Parse(c.String()).Config()
}
