// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"context"
	"slices"
	"time"
)

// patience is how many times Debounce a file that never comes to rest is left
// unread.
const patience = 10

// Run keeps the snapshot up to date until ctx is done, and then returns nil. What it
// cannot watch it polls, and logs that. It panics if it was called before.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		panic("hostresolv: Run was called twice")
	}
	events := watching{w: w, signal: make(chan struct{}, 1), stop: func() {}}
	defer func() { events.stop() }()
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	settled := time.NewTimer(0) // the file may have changed since New
	defer settled.Stop()
	var latest time.Time // to read the file; zero if nothing has happened to it
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events.signal:
			now := time.Now()
			if latest.IsZero() {
				latest = now.Add(patience * w.cfg.Debounce)
			}
			settled.Reset(min(w.cfg.Debounce, latest.Sub(now)))
		case <-settled.C:
			latest = time.Time{}
			events.look()
		case <-poll.C:
			if latest.IsZero() { // else the file may be half-written, and its time comes
				events.look()
			}
		}
	}
}

// watching is the part of Run that reads the file and renews the watches.
type watching struct {
	w      *Watcher
	signal chan struct{} // holds one: something has changed
	stop   func()        // ends the watches
	err    string        // of the last attempt to watch
}

// look renews the watches and then reads the file. Watches are on inodes and the
// names may lead to others by now, so there is no repairing old ones. What happens
// before the new ones are in place is read, what happens later is signalled. If the
// file turns out to be elsewhere, its way has to be watched first.
func (e *watching) look() {
	const attempts = 3
	for range attempts {
		names := e.w.current.Load().names
		e.watch(names)
		e.w.read()
		if slices.Equal(names, e.w.current.Load().names) {
			return
		}
	}
	e.changed() // it moves as fast as we look: once more, after the debounce
}

func (e *watching) watch(names []string) {
	e.stop()
	stop, err := e.w.notify(names, e.changed)
	e.stop = stop
	if text(err) != e.err && err != nil {
		e.w.cfg.Logger.Warn("the host's resolv.conf is polled, watching it fails",
			"path", e.w.cfg.Path, "every", e.w.cfg.Poll, "error", err)
	}
	e.err = text(err)
}

func (e *watching) changed() {
	select {
	case e.signal <- struct{}{}:
	default: // there is one
	}
}
