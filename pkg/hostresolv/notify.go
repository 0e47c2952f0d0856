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

// notifyFunc watches names and calls changed whenever one of them may have become
// another file or got another text, from a goroutine of its own; changed must not
// wait. stop ends that and waits for the goroutine; it is never nil. The error says
// what is not watched; the rest is.
//
// Names come in the order of the way, and each is looked up only after its directory
// is watched: one that is replaced meanwhile is either found as it is now or heard of.
type notifyFunc func(names []string, changed func()) (stop func(), err error)

// notify is the notifyFunc of a real file system. An event is no more than a reason
// to look: which name it is about is compared, what happened is not.
func notify(names []string, changed func()) (stop func(), err error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return func() {}, fmt.Errorf("%w%s", err, hint(err))
	}
	ours := map[string]bool{}
	var errs []error
	add := func(path string) {
		ours[path] = true
		if err := watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // gone: its directory tells
			errs = append(errs, fmt.Errorf("watching %s: %w%s", path, err, hint(err)))
		}
	}
	for _, name := range names {
		add(filepath.Dir(name))
		ours[name] = true
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			add(name)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		forward(watcher, ours, changed)
	}()
	return func() { watcher.Close(); <-done }, errors.Join(errs...)
}

// forward calls changed for events about our names until the watcher is closed. It
// must not wait: the watcher holds a lock while it hands out some of its errors.
func forward(watcher *fsnotify.Watcher, ours map[string]bool, changed func()) {
	for {
		select {
		case event, open := <-watcher.Events:
			if !open {
				return
			}
			if ours[filepath.Clean(event.Name)] { // in "/" it is "//name"
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

// hint says where to look when inotify refuses: its errors are about something else.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return " (see ulimit -n and the sysctl fs.inotify.max_user_instances)"
	case errors.Is(err, syscall.ENOSPC):
		return " (see the sysctl fs.inotify.max_user_watches)"
	default:
		return ""
	}
}
