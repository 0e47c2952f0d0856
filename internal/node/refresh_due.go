// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
)

// cause is why the file of a sandbox is compared with a decision. A higher one includes the
// lower ones, except causeTouch.
type cause int

const (
	causeTouch    cause = iota + 1 // the file was rewritten
	causeVerify                    // the timer
	causeHost                      // the host's resolv.conf has changed
	causePod                       // the annotations of the pod have changed
	causeSettings                  // the configuration has changed
	causeAll                       // the command refresh --all
	causeCommand                   // the command refresh for this pod
)

// event returns the event of a State.
func (c cause) event() Event {
	switch c {
	case causeVerify:
		return Verify
	case causeCommand:
		return Command
	}
	return Change
}

const (
	refreshPause   = 5 * time.Millisecond // between two rewrites, on average
	verifyInterval = 5 * time.Minute      // of all files; reading the files of 110 pods takes some milliseconds
)

// Run refreshes files until ctx ends: those with a cause that is due, and all at verifyInterval. It must be called once.
func (a *Applier) Run(ctx context.Context) error {
	verify := time.NewTicker(verifyInterval)
	defer verify.Stop()
	for ctx.Err() == nil {
		s, c, wait := a.next()
		if s != nil {
			a.refreshDue(ctx, s, c)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-a.wake:
		case <-due:
		case <-verify.C:
			a.refreshAll(causeVerify)
		case <-ctx.Done():
		}
	}
	time.Sleep(touchDelay)
	for s, c, _ := a.next(); s != nil; s, c, _ = a.next() {
		if c == causeTouch {
			a.refreshDue(ctx, s, c)
		}
	}
	return nil
}

// refreshAll schedules a cause for all sandboxes.
func (a *Applier) refreshAll(c cause) {
	for _, s := range a.list() {
		a.schedule(s, c, 0)
	}
}

// schedule makes a cause due after a delay, unless it is pending already.
func (a *Applier) schedule(s *sandbox, c cause, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.due[c].IsZero() {
		s.due[c] = time.Now().Add(delay)
	}
	daemon.Notify(a.wake)
}

// next returns a sandbox with a cause that is due. If there is none, next is nil, and wait is the time until there is one,
// 0 if none is pending. causeTouch is first: a program may keep what it has read before. Otherwise the order is random,
// so that a pod that causes many refreshes does not delay the others.
func (a *Applier) next() (next *sandbox, highest cause, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, s := range a.sandboxes {
		for c, at := range s.due {
			switch left := at.Sub(now); {
			case at.IsZero():
			case left > 0 && (wait == 0 || left < wait):
				wait = left
			case left > 0:
			case cause(c) == causeTouch:
				s.due[c] = time.Time{}
				return s, causeTouch, 0
			default:
				next, highest = s, cause(c)
			}
		}
	}
	if next != nil {
		clear(next.due[causeVerify : highest+1]) // the highest one includes the others
	}
	return next, highest, wait
}

// refreshDue refreshes the file of a sandbox, and waits after a rewrite, so that the rate is
// not exceeded. Half of the pause is random: pods of several nodes that read their files again
// do not send their queries at the same time.
func (a *Applier) refreshDue(ctx context.Context, s *sandbox, c cause) {
	defer a.recoverPanic(s.Sandbox)
	switch {
	case c == causeTouch:
		a.touch(s)
		return
	case c == causePod && a.delay(s):
		return
	}
	next := time.Now().Add(refreshPause/2 + rand.N(refreshPause))
	if result, _ := a.refresh(s, c); result == Refreshed {
		daemon.Sleep(ctx, time.Until(next))
	}
}

// refresh processes a cause of a refresh. The result is "" if the Applier does not decide the pod's DNS;
// detail is the reason.
func (a *Applier) refresh(s *sandbox, c cause) (result RefreshResult, detail string) {
	settings, done := a.takeTurn(s)
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.isGone(s.ID, s.path):
		a.remove(s.ID)
		return "", "the sandbox was removed"
	case s.path == "":
		return "", "the pod has no container yet"
	case s.err != nil:
		return "", "the pod was not found"
	}
	s.updateAnnotations(settings)
	st := newStep(settings, s)
	st.cause = c
	a.process(c.event(), st)
	if st.result != "" {
		a.Metrics.countRefresh(st.result)
	}
	return st.result, st.detail
}
