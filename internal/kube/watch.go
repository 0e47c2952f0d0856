// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleTime is the delay between the first change of a directory and its reading,
	// so that a file is rarely read half written.
	settleTime = 50 * time.Millisecond

	// PollPeriod is how often a [Watcher] reads its directories without an event. It is
	// the kubelet's (fileCheckFrequency). inotify reports neither a directory that is
	// created later nor the target of a symbolic link.
	PollPeriod = 20 * time.Second
)

// Watcher reads directories when they change. Its methods must be called from one
// goroutine.
type Watcher struct {
	// Directories are the directories to watch. One that does not exist is watched
	// when it has been created. Required.
	Directories []string

	// Read reads the directories and returns the error of each path that it could not
	// read. Required.
	Read func() map[string]error

	// Wake makes Run read at once. nil: never.
	Wake <-chan struct{}

	// Logger receives the errors of Read: each error of a path once, until it changes.
	// Message is their message. Required.
	Logger  *slog.Logger
	Message string

	notify *fsnotify.Watcher // nil: inotify is not available
	logged map[string]string // the error that was logged last, by path
}

// Run reads the directories now and whenever they change, until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	var events chan fsnotify.Event
	var failures chan error
	if n, err := fsnotify.NewWatcher(); err == nil {
		defer n.Close()
		w.notify, events, failures = n, n.Events, n.Errors
	} else {
		w.Logger.Warn("cannot watch directories, polling them", "period", PollPeriod, "error", err)
	}
	w.Poll()
	period := time.NewTicker(PollPeriod)
	defer period.Stop()
	var settled <-chan time.Time // nil: no change since the last reading
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-failures: // the queue of events has overflowed
		case <-w.Wake:
			w.Poll()
			continue
		case <-period.C:
			w.Poll()
			continue
		case <-settled:
			settled = nil
			w.Poll()
			continue
		}
		if settled == nil {
			settled = time.After(settleTime)
		}
	}
}

// Poll reads the directories once. Run calls it.
func (w *Watcher) Poll() {
	failed := map[string]error{}
	if w.notify != nil {
		for _, path := range w.Directories { // before each reading: the directory may be a new one
			if err := w.notify.Add(path); err != nil {
				failed[path] = fmt.Errorf("watching: %w", err)
			}
		}
	}
	maps.Copy(failed, w.Read())
	logged := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(failed)) {
		logged[path] = failed[path].Error()
		if w.logged[path] != logged[path] {
			w.Logger.Warn(w.Message, "path", path, "error", failed[path])
		}
	}
	w.logged = logged
}
