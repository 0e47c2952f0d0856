// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"errors"
	"sync"

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
		a.process(Ready, &step{settings: a.settings.Load(), sandbox: s, first: first})
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
	a.process(Ready, &step{settings: settings, sandbox: s})
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
	if s.request != nil {
		a.logFailure(r) // the shim has reported its decision
	} else {
		a.report(r)
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

// hostFiles returns the host's files. They are read once for a file of a sandbox, so that all
// decisions for it are made from the same ones, and not before they are needed.
type hostFiles func() cri.HostFiles

// write decides and writes, in the turn of the pod, and returns the next State. first reports whether no
// container has the file yet.
func (a *Applier) write(settings *Settings, s *sandbox, first bool) (State, cri.Report) {
	hook, host := settings.Hook, sync.OnceValue(settings.Hook.HostFiles)
	f, err := podfile.Open(settings.Directories, s.ID, s.path)
	if err != nil {
		return Foreign, s.failed(hook.Mode, err)
	}
	defer f.Close()
	text, err := f.Read()
	if err != nil {
		return Foreign, s.failed(hook.Mode, err)
	}
	switch podfile.OriginOf(text) {
	case podfile.Written, podfile.Unfinished:
		if hook.Problem != nil { // it is adopted with valid settings
			return Foreign, cri.Report{Sandbox: s.describe(), Mode: hook.Mode, Outcome: cri.BadConfig, Detail: hook.Problem.Error()}
		}
		s.recognized = recognition{}
		if err := a.adopt(settings, s, host, f, text); err != nil {
			return Foreign, s.failed(hook.Mode, err)
		}
		return Ours, cri.Report{Sandbox: s.describe(), Mode: hook.Mode, Outcome: cri.Unchanged}
	case podfile.Changed:
		return Foreign, s.failed(hook.Mode, podfile.ErrChanged)
	case podfile.Restored:
		s.before = Ours
		return Restored, cri.Report{Sandbox: s.describe(), Mode: hook.Mode, Outcome: cri.Restored}
	}
	return a.replace(settings, s, host, f, text, first)
}

// failed returns the report about an error of the file.
func (s *sandbox) failed(mode cri.Mode, err error) cri.Report {
	return cri.Report{Sandbox: s.describe(), Mode: mode, Outcome: failure(err), Detail: err.Error()}
}

// learnAsCreated records what the kubelet's text of f, which gives dns and has the digest sum, shows if nothing
// has written it since the runtime created it, although the start of the sandbox was not seen. A text that the
// kubelet does not compute from the node facts does not confirm them: they may be wrong, or the host's file
// may have changed.
func (s *sandbox) learnAsCreated(settings *Settings, host hostFiles, f *podfile.File, dns resolvconf.Config, sum [sha256.Size]byte) {
	hook := settings.Hook
	if s.original != ([sha256.Size]byte{}) || s.err != nil || hook.Problem != nil || !f.IsAsCreated() {
		return
	}
	computed := settings.computes(s.pod, host, dns)
	switch {
	case computed || hook.Mode == cri.Force:
		s.original = sum
		s.observed = s.observed || !computed // the text does not show the node facts of now
	case s.recognized.sum != sum && s.request == nil:
		// The kubelet's text of an earlier time: the decision is due if it is not what the kubelet computes now.
		s.recognized = recognition{sum, asDue}
		if d := hook.Engine.Decide(s.pod, host().Pods); settings.computes(s.pod, host, d.Config()) {
			s.recognized.as = asKubelet
		}
	}
}

// replace decides the DNS configuration of the sandbox, whose file has the text of the kubelet, and
// writes it into the file unless the text is right already.
func (a *Applier) replace(settings *Settings, s *sandbox, host hostFiles, f *podfile.File, text []byte, first bool) (State, cri.Report) {
	hook := settings.Hook
	request := s.describe()
	request.DNS, request.HasDNS, request.FromFile = resolvconf.Parse(string(text)).Config(), true, true
	sum := sha256.Sum256(text)
	s.learnAsCreated(settings, host, f, request.DNS, sum)
	request.Unverified = sum != s.original
	s.known = request.DNS
	if settings.Observed != nil && s.err == nil && !request.Unverified && s.request == nil && !s.observed {
		s.observed = true
		settings.Observed(s.pod, s.known)
	}
	r := a.decide(settings, s, host, request, sum)
	if s.request != nil {
		return a.adoptRequest(settings, s, host, r)
	}
	next := stateOf(r.Outcome)
	if next.follows() && !request.Unverified {
		a.confirmBy(settings, s, host, s.known)
	}
	if r.Outcome != cri.Edited {
		s.want = normalize(r.DNS)
		return next, r
	}
	if err := f.Replace(text, r.DNS.String(), s.runtimeText(text)); err != nil {
		return Foreign, s.failed(hook.Mode, err)
	}
	s.recognized = recognition{}
	s.known, s.want = normalize(r.DNS), normalize(r.DNS)
	if !first {
		r.Outcome = cri.Late
		a.touchLater(s)
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
func (a *Applier) decide(settings *Settings, s *sandbox, host hostFiles, request cri.Sandbox, sum [sha256.Size]byte) cri.Report {
	r := settings.Hook.DecidePod(request, s.pod, s.err, host)
	switch compared := r.Mode != cri.Force || request.Unverified; {
	case r.Outcome == cri.FactsMismatch:
	case r.Outcome == cri.Edited && !compared:
		return r // the text may be none that the kubelet computes: no other mode replaces it
	default:
		switch r.Outcome {
		case cri.Unchanged:
			s.recognized = recognition{sum, asKubelet}
		case cri.Observed, cri.Edited:
			s.recognized = recognition{sum, asDue}
		}
		return r
	}
	if s.recognized.sum == sum {
		return a.decideLater(settings, s, host, request)
	}
	if s.acceptDecision(settings, host, &r); r.Outcome == cri.Unchanged {
		s.recognized = recognition{sum, asEdited}
	} else if request.Unverified && s.request == nil {
		r.Outcome, r.Detail = cri.Unverified, r.Detail+notSeenAtStart
	}
	return r
}

// adopt keeps the text that a previous process has written to f, and verifies it later: the facts may
// have changed since. It completes a text that is not finished, and rewrites one with blanks at the end
// of lines. Only an original text that was seen before the first container confirms node facts: the pod
// can write comments.
func (a *Applier) adopt(settings *Settings, s *sandbox, host hostFiles, f *podfile.File, text []byte) error {
	s.known = resolvconf.Parse(string(text)).Config()
	if s.err != nil {
		return nil
	}
	d := settings.Hook.Engine.Decide(s.pod, host().Pods)
	s.want = normalize(d.Config())
	original, ok := podfile.Original(text)
	if ok && s.original == sha256.Sum256(original) {
		a.confirmBy(settings, s, host, resolvconf.Parse(string(original)).Config())
	}
	switch {
	case podfile.OriginOf(text) == podfile.Unfinished:
		if !ok {
			original = []byte(settings.Hook.Engine.KubeletConfig(s.pod, host().Kubelet).String())
		}
		if s.known = s.want; d.Error != "" || len(s.want.Nameservers) == 0 {
			s.known = resolvconf.Parse(string(original)).Config()
		}
	case !podfile.HasBlanks(text) || settings.Hook.Mode == cri.Observe:
		a.verifyLater(s)
		return nil
	}
	defer a.verifyLater(s)
	if err := f.Replace(text, s.known.String(), original); err != nil {
		return err
	}
	a.touchLater(s)
	return nil
}

// decideLater returns the decision for a text that the kubelet has computed from the node facts of an
// earlier time. The file follows changes from now on, as before. Only a decision that is due is
// written at once, when the node facts are confirmed. s.mu must be held.
func (a *Applier) decideLater(settings *Settings, s *sandbox, host hostFiles, request cri.Sandbox) cri.Report {
	request.DNS, request.HasDNS = resolvconf.Config{}, false // the node facts of now do not give it
	r := settings.Hook.DecidePod(request, s.pod, s.err, host)
	if r.Outcome != cri.Edited && r.Outcome != cri.Observed {
		return r
	}
	d := settings.Hook.Engine.Decide(s.pod, host().Pods)
	switch {
	case normalize(r.DNS).Equal(s.known):
		r.Outcome = cri.Unchanged
	case r.Outcome == cri.Observed:
	case s.recognized.as != asDue:
		r.Outcome = cri.Unchanged
		a.queue.push(s.ID, causeVerify)
	case isUnreachable(&s.pod, &d):
		r.Outcome, r.Detail = cri.Observed, unreachable
	case settings.Hook.Mode != cri.Force && !a.facts.covers(factsOf(&d)):
		r.Outcome, r.Detail = cri.Observed, unconfirmed
	}
	return r
}

// verifyLater queues s if its file does not have the decision. s.mu must be held.
func (a *Applier) verifyLater(s *sandbox) {
	if !s.known.Equal(s.want) {
		a.queue.push(s.ID, causeVerify)
	}
}

// computes reports whether a kubelet with the node facts of s computes dns for pod.
func (s *Settings) computes(pod policy.Pod, host hostFiles, dns resolvconf.Config) bool {
	expected := s.Hook.Engine.KubeletConfig(pod, host().Kubelet)
	return normalize(dns).Equal(normalize(expected))
}

// normalize returns c as it is read from a file: without duplicates and trailing dots.
func normalize(c resolvconf.Config) resolvconf.Config {
	return resolvconf.Parse(c.String()).Config()
}

// failure returns the outcome of an error of package podfile.
func failure(err error) cri.Outcome {
	switch {
	case errors.Is(err, podfile.ErrForeign), errors.Is(err, podfile.ErrTooLarge):
		return cri.ForeignFile
	case errors.Is(err, podfile.ErrChanged):
		return cri.PodChanged
	}
	return cri.WriteFailed
}
