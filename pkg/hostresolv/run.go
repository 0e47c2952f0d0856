// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"context"
	"slices"
	"time"
)

// maxDebounces is the number of debounce times after which a file is read even if it still
// changes.
const maxDebounces = 10

// Run keeps the snapshot up to date until ctx is done, and then returns nil. If it cannot
// watch a file, it logs this and polls the file. It panics if it is called twice.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		panic("hostresolv: Run was called twice")
	}
	watches := watchSet{w: w, signal: make(chan struct{}, 1), stop: func() {}}
	defer func() { watches.stop() }()
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	debounce := time.NewTimer(0) // the file may have changed since New
	defer debounce.Stop()
	var deadline time.Time // for reading a changed file; zero if there was no event
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watches.signal:
			now := time.Now()
			if deadline.IsZero() {
				deadline = now.Add(maxDebounces * w.cfg.Debounce)
			}
			debounce.Reset(min(w.cfg.Debounce, deadline.Sub(now)))
		case <-debounce.C:
			deadline = time.Time{}
			watches.rewatch()
		case <-poll.C:
			if deadline.IsZero() { // otherwise the file may be half-written
				watches.rewatch()
			}
		}
	}
}

// watchSet holds the watches of Run.
type watchSet struct {
	w      *Watcher
	signal chan struct{} // has a value if a file has changed; capacity 1
	stop   func()        // ends the watches
	err    string        // of the last attempt to watch
}

// rewatch replaces the watches and then reads the files. Watches are on inodes, and the names
// may have other inodes now, so the old watches cannot be kept. A change before the new
// watches exist is read, a later one is signalled. If the path resolves to another file than
// the watches are for, rewatch starts again.
func (s *watchSet) rewatch() {
	const attempts = 3
	for range attempts {
		names := s.w.current.Load().names
		s.watch(names)
		s.w.readFiles()
		if slices.Equal(names, s.w.current.Load().names) {
			return
		}
	}
	s.changed() // try again after the debounce
}

func (s *watchSet) watch(names []string) {
	stop, err := s.w.notify(names, s.changed)
	if stop != nil { // otherwise the old watches are better than none, as at the limit of inotify instances
		s.stop()
		s.stop = stop
	}
	if errorText(err) != s.err && err != nil {
		s.w.cfg.Logger.Warn("cannot watch the host's resolv.conf, polling it",
			"path", s.w.cfg.Path, "interval", s.w.cfg.Poll, "error", err)
	}
	s.err = errorText(err)
}

func (s *watchSet) changed() {
	select {
	case s.signal <- struct{}{}:
	default: // already signalled
	}
}
