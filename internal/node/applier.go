// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const (
	// maxSandboxes is the number of sandboxes that an Applier keeps. A kubelet starts 110 pods
	// by default, and the largest nodes have about a thousand.
	maxSandboxes = 8192

	firstRetry = time.Second // between two lookups of a pod
	lastRetry  = 30 * time.Second

	// syncWait is how long lookups of pods that run wait for Settings.Synced. A list of the pods
	// of a node takes milliseconds.
	syncWait = 3 * time.Second
)

// Settings are the configuration of an Applier.
type Settings struct {
	Hook        *cri.Hook // its Lookup is called in the background
	Directories []string  // see podfile.Open

	Refresh Scope // the pods whose files follow changes

	// Facts identifies the node facts. When they differ from those of the settings before, files
	// of running pods are rewritten only after a pod has confirmed them, except in mode Force.
	Facts string

	// Synced is closed when Hook.Lookup knows the pods of the node. Those that run are not looked
	// up before: an agent that starts would otherwise request each of them from the API server.
	// nil: they are looked up at once.
	Synced <-chan struct{}

	// Annotations returns the annotations FollowedAnnotations of a running pod as the API server
	// has them now, which replace those that the sandbox was created with. nil: these do not
	// change.
	Annotations func(uid string) (values map[string]string, ok bool)

	// Report is called for each file that was rewritten, and for each that differs when the
	// difference is found. It must not block.
	Report func(Refresh)
}

// newSettings returns the settings of a configuration. The Hook's Lookup is that of lookups.
func newSettings(hook *cri.Hook, c AgentConfig, lookups *Lookups) *Settings {
	s := &Settings{
		Hook: hook, Directories: c.SandboxDirectories, Refresh: Scope(c.Refresh),
		Report: lookups.Reporter.ReportRefresh, Annotations: lookups.pods.Annotations,
		Facts: fmt.Sprint(c.Node.ClusterDNS, c.Node.ClusterDomain, c.Node.ResolvConf, c.Node.IPs),
	}
	if lookups.api != nil {
		s.Synced = lookups.pods.Synced()
	}
	return s
}

// Applier writes the resolv.conf of sandboxes. Call SetSettings before Handle.
type Applier struct {
	Metrics *Metrics
	Log     *slog.Logger

	settings atomic.Pointer[Settings]
	tasks    sync.WaitGroup
	wake     chan struct{} // has a token when a cause was scheduled
	facts    confirmation

	deleted atomic.Bool // a directory of sandboxes was removed, which is logged

	mu          sync.Mutex
	sandboxes   map[string]*sandbox // by ID
	unannounced map[string]bool     // IDs of sandboxes from before a Reset
}

// sandbox is the state of a sandbox.
type sandbox struct {
	podfile.Sandbox
	cancel context.CancelFunc // of the lookup
	large  atomic.Bool        // the pod is decided in a turn; without mu, which is held meanwhile
	drift  atomic.Value       // see lastDrift; without mu, which a file system can hold for long

	mu sync.Mutex
	memory
	current map[string]string // the annotations of now; nil: those of Sandbox
	path    string            // "": no container yet
	pod     policy.Pod
	err     error // of the last lookup, or errPending

	known     resolvconf.Config // of the file when it was verified or written
	want      resolvconf.Config // the last decision
	refreshed time.Time         // the last rewrite; zero: none
}

// memory is what the file of a sandbox does not show. It outlasts a Reset, and not the process: another one finds
// out with [podfile.File.IsAsCreated].
type memory struct {
	state      State
	before     State             // in state Restored: that of before
	original   [sha256.Size]byte // of the file before the first container; zero: not known
	recognized recognition
	request    *podfile.Request // of a shim; nil: there is none
	reported   cri.Outcome

	due [causeSettings + 1]time.Time // when the file is to be compared, by cause; zero: not. Guarded by Applier.mu
}

// recognition is the last text of the runtime that was known to be right for the pod. The zero value is none.
type recognition struct {
	sum [sha256.Size]byte
	as  recognized
}

// recognized is what a text of the runtime is.
type recognized uint8

const (
	asKubelet recognized = iota // the kubelet's text
	asDue                       // the same, and the decision is still to be written
	asEdited                    // a decision: a shim has edited the request
)

// lastDrift returns why the file differed when it was last compared, "" if it did not.
func (s *sandbox) lastDrift() Drift {
	d, _ := s.drift.Load().(Drift)
	return d
}

// newApplier returns an Applier without sandboxes.
func newApplier(metrics *Metrics, log *slog.Logger) *Applier {
	return &Applier{Metrics: metrics, Log: log, wake: make(chan struct{}, 1)}
}

// SetSettings applies settings to every decision from now on. Pods that were decided before are
// decided again, at the rate of refreshes.
func (a *Applier) SetSettings(s *Settings) {
	a.facts.reset(s.Facts)
	if a.settings.Swap(s) != nil {
		a.refreshAll(causeSettings)
	}
}

// HostChanged decides pods again, after a change of the host's resolv.conf.
func (a *Applier) HostChanged() { a.refreshAll(causeHost) }

// Handle processes an event. It returns when the file is written if the pod is known already.
// Lookups and late writes run until ctx ends. A panic is contained.
func (a *Applier) Handle(ctx context.Context, e podfile.Event) {
	defer a.recoverPanic(e.Sandbox)
	began := time.Now()
	switch e.Kind {
	case podfile.Reset:
		a.reset()
	case podfile.Synchronized: // the runtime has no other sandboxes
		a.mu.Lock()
		defer a.mu.Unlock()
		for id := range a.unannounced {
			a.removeLocked(id)
		}
	case podfile.Started:
		a.add(ctx, e.Sandbox, nil)
	case podfile.Creating:
		if s := a.add(ctx, e.Sandbox, nil); s != nil {
			a.create(s, &e)
			a.Metrics.create.Observe(time.Since(began).Seconds())
		}
	case podfile.Running:
		if a.isGone(e.Sandbox.ID, e.Path) { // since the relay has listed the sandboxes of the runtime
			a.remove(e.Sandbox.ID)
		} else if s := a.add(ctx, e.Sandbox, a.settings.Load().Synced); s != nil {
			a.setRequest(s, e.Request)
			a.runTask(s, func() { a.writeLate(s, e.Path) })
		}
	case podfile.Removed:
		a.remove(e.Sandbox.ID)
	}
}

// Wait returns when all lookups and late writes have returned, after the end of their context.
func (a *Applier) Wait() { a.tasks.Wait() }

// reset keeps all sandboxes until Synchronized.
func (a *Applier) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unannounced = map[string]bool{}
	for id := range a.sandboxes {
		a.unannounced[id] = true
	}
}

// unsettled returns the memory of s if the decision about it was not made, or its file does not follow
// changes. While s is being decided or written, ok is false: this ends with s as it is, and the events
// of other pods do not wait for a file system.
func (s *sandbox) unsettled() (m memory, ok bool) {
	if !s.mu.TryLock() {
		return m, false
	}
	defer s.mu.Unlock()
	if m = s.memory; m.state != Restored {
		m.state = New
	}
	return m, !s.state.follows()
}

func (a *Applier) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(id)
}

// removeLocked is remove with a.mu held.
func (a *Applier) removeLocked(id string) {
	if s := a.sandboxes[id]; s != nil {
		s.cancel()
		delete(a.sandboxes, id)
	}
	delete(a.unannounced, id)
}

// add returns the sandbox, and starts the lookup of its pod: when synced is closed, or after syncWait. A sandbox
// that is there already is looked up again if this is its first event after a Reset, and it is unsettled. add
// returns nil if there are too many.
func (a *Applier) add(ctx context.Context, e podfile.Sandbox, synced <-chan struct{}) *sandbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, again := a.sandboxes[e.ID], a.unannounced[e.ID]
	delete(a.unannounced, e.ID)
	var known memory
	switch {
	case s == nil:
	case s.UID != e.UID: // the ID is that of another pod now
		a.removeLocked(e.ID)
	default:
		m, unsettled := s.unsettled()
		if !again || !unsettled {
			return s
		}
		a.removeLocked(e.ID)
		known = m
	}
	if len(a.sandboxes) >= maxSandboxes {
		a.Log.Error("sandbox ignored: too many sandboxes", "limit", maxSandboxes)
		return nil
	}
	if a.sandboxes == nil {
		a.sandboxes = map[string]*sandbox{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s = &sandbox{Sandbox: e, cancel: cancel, memory: known, err: errPending}
	a.sandboxes[e.ID] = s
	a.runTask(s, func() {
		if synced != nil {
			select {
			case <-synced:
			case <-time.After(syncWait):
			case <-ctx.Done():
			}
		}
		a.lookUp(ctx, s)
	})
	return s
}

// runTask calls task in a goroutine.
func (a *Applier) runTask(s *sandbox, task func()) {
	a.tasks.Go(func() {
		defer a.recoverPanic(s.Sandbox)
		task()
	})
}

func (a *Applier) recoverPanic(s podfile.Sandbox) {
	if p := recover(); p != nil {
		a.report(cri.Report{Sandbox: newSandbox(s, s.Annotations), Outcome: cri.Panicked, Detail: fmt.Sprint(p)})
	}
}

// lookUp looks up the pod of s until it is found, does not exist, or ctx ends.
func (a *Applier) lookUp(ctx context.Context, s *sandbox) {
	for pause := firstRetry; ctx.Err() == nil; pause = min(2*pause, lastRetry) {
		pod, err := a.settings.Load().Hook.Lookup(ctx, newSandbox(s.Sandbox, s.Annotations))
		if ctx.Err() != nil {
			return // the sandbox was removed
		}
		s.large.Store(cri.TakesTurns(pod))
		s.mu.Lock()
		s.pod, s.err = pod, err
		if ips := s.describe().IPs; len(ips) > 0 {
			s.pod.IPs = ips // newer than the status of the pod
		}
		if err == nil {
			s.updateAnnotations(a.settings.Load())
		}
		path := s.path
		s.mu.Unlock()
		if path != "" {
			a.writeLate(s, path)
		}
		if err == nil || errors.Is(err, cri.ErrUnknownPod) {
			return
		}
		daemon.Sleep(ctx, pause)
	}
}

// describe returns the sandbox with the annotations of now. s.mu must be held.
func (s *sandbox) describe() cri.Sandbox {
	if s.current != nil {
		return newSandbox(s.Sandbox, s.current)
	}
	return newSandbox(s.Sandbox, s.Annotations)
}

func newSandbox(s podfile.Sandbox, annotations map[string]string) cri.Sandbox {
	c := cri.Sandbox{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, HostNetwork: s.HostNetwork, Annotations: annotations,
	}
	for _, ip := range s.IPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			c.IPs = append(c.IPs, a)
		}
	}
	return c
}
