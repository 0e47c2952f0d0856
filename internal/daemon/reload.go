// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// pollPeriod is how often configuration files are compared with what was read. They are
// small. Reading them detects changes that inotify on a directory does not: bind mounts,
// replaced links, network file systems.
const pollPeriod = 5 * time.Second

// A Source is the configuration of a server in files that may change. It is an interface so that a process
// without such files, the NRI relay, does not link their packages.
type Source[C any] interface {
	Load() (C, error)
	Changed() bool                        // reports, at a poll, whether Load must be called again
	NeedRestart(running, next C) []string // names the fields that differ, and take effect after a restart
}

// A Reloader applies the configuration of a server again when its files have changed and are
// the same at two polls, and at once on a signal. If the configuration is invalid, the server
// keeps the previous one. If a valid one cannot be applied, for example because a file cannot
// be watched, it is applied again at the next poll.
type Reloader[C any] struct {
	Process // its Reload reloads at once
	Source  Source[C]

	// Apply applies a configuration. If background is not nil, it replaces the background
	// task that runs.
	Apply func(next C) (background Task, err error)

	started C    // the configuration that the server started with
	first   Task // its background task
	success prometheus.Gauge

	unapplied bool   // the last valid configuration could not be applied: retry
	logged    string // the error that is logged once while it repeats
}

// Start applies the configuration with which the server starts, and registers the metrics.
func (r *Reloader[C]) Start(c C) (err error) {
	if r.first, err = r.Apply(c); err != nil {
		return err
	}
	r.started = c
	r.success = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_last_reload_success",
		Help: "1 if the configuration files were valid when they were last read, 0 if the server keeps a previous configuration.",
	})
	r.success.Set(1)
	r.Metrics.MustRegister(r.success)
	return nil
}

// Run runs the background task, and reloads until ctx ends.
func (r *Reloader[C]) Run(ctx context.Context) error {
	stop := Start(ctx, r.first)
	defer func() { stop() }()
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	r.Source.Changed() // the first poll
	for {
		var background Task
		select {
		case <-ctx.Done():
			return nil
		case <-r.Reload:
			r.logged = ""
			background = r.reload()
		case <-poll.C:
			changed := r.Source.Changed()
			if changed {
				r.logged = ""
			}
			if changed || r.unapplied {
				background = r.reload()
			}
		}
		if background != nil {
			stop()
			stop = Start(ctx, background)
		}
	}
}

// reload reads and applies the configuration. It returns the new background task, if there is
// one.
func (r *Reloader[C]) reload() Task {
	next, err := r.Source.Load()
	var background Task
	r.unapplied = false
	if err == nil {
		background, err = r.Apply(next)
		r.unapplied = err != nil
	}
	if err != nil {
		r.success.Set(0)
		if err.Error() != r.logged {
			r.logged = err.Error()
			for _, e := range excerpt.Unjoin(err) {
				r.Log.Error("invalid configuration, keeping the previous one", "error", e)
			}
		}
		return nil
	}
	r.logged = ""
	r.success.Set(1)
	if fields := r.Source.NeedRestart(r.started, next); fields != nil {
		r.Log.Warn("changed fields take effect after a restart", "fields", fields)
	}
	return background
}
