// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package hostresolv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// notifyFunc watches names and calls changed when one of them may have been replaced or
// written. It calls changed from a goroutine of its own; changed must not block. stop ends
// the watches and waits for the goroutine; it is nil if nothing is watched. The error lists the
// names that are not watched; all others are.
//
// names are in the order of linkPath.names. Each is looked up after its directory is watched,
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

// limitHint returns the limit to raise if inotify fails: the texts of its errors are those of
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
