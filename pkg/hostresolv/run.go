// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
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
		names := s.w.current.Load().names()
		s.watch(names)
		s.w.readFiles()
		if slices.Equal(names, s.w.current.Load().names()) {
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
	if err != nil && errorText(err) != s.err {
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

// notifyFunc watches names and calls changed when one of them may have been replaced or
// written. It calls changed from a goroutine of its own; changed must not block. stop ends
// the watches and waits for the goroutine; it is nil if nothing is watched. The error lists the
// names that are not watched; all others are.
//
// names are in the order of reading.names. Each is looked up after its directory is watched,
// so if it is replaced meanwhile, either the lookup or an event finds the new one.
type notifyFunc func(names []string, changed func()) (stop func(), err error)

// notify is the notifyFunc for a real file system. An event only triggers a read, so its kind
// does not matter.
func notify(names []string, changed func()) (stop func(), err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, limitHint(err))
	}
	watched := map[string]bool{}
	var errs []error
	add := func(path string) {
		watched[path] = true
		if err := watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // its directory is watched
			errs = append(errs, fmt.Errorf("watching %s: %w%s", path, err, limitHint(err)))
		}
	}
	for _, name := range names {
		add(filepath.Dir(name))
		watched[name] = true
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			add(name)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		forwardEvents(watcher, watched, changed)
	}()
	return func() { watcher.Close(); <-done }, errors.Join(errs...)
}

// forwardEvents calls changed for every event about a watched name until watcher is closed.
// It must not block: watcher holds a lock while it sends some of its errors.
func forwardEvents(watcher *fsnotify.Watcher, watched map[string]bool, changed func()) {
	for {
		select {
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if watched[filepath.Clean(event.Name)] { // a name in "/" is reported as "//name"
				changed()
			}
		case _, open := <-watcher.Errors:
			if !open {
				return
			}
			changed() // events were lost
		}
	}
}

// limitHint returns the limit to raise if inotify fails: the texts of its errors name
// other limits.
func limitHint(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return " (see ulimit -n and the sysctl fs.inotify.max_user_instances)"
	case errors.Is(err, syscall.ENOSPC):
		return " (see the sysctl fs.inotify.max_user_watches)"
	default:
		return ""
	}
}
