// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

// reloadPeriod is how often the configuration files are looked at. They are small, and
// reading them sees what the watch of a directory does not: bind mounts, swapped
// links, network file systems.
const reloadPeriod = 5 * time.Second

// reloader holds a server to what its configuration files say. A change counts when it is
// the same for two looks, so that a file is not read half written, or at once when
// hangup says so. A file with an error changes nothing.
type reloader struct {
	files  *config.Files // that were read
	hangup <-chan os.Signal

	// reload reads the files and puts what they say in force. It returns what has to run
	// for it from now on, and the names of the fields that count after a restart only.
	reload  func() (companion, []string, error)
	running companion // with what the server was started with

	success prometheus.Gauge
	log     *slog.Logger
}

// companion is what runs besides a server for the settings in force, as the watch of the
// host's file. Values are compared: one that stays goes on.
type companion interface {
	// start runs it until ctx ends or stop is called, which waits.
	start(ctx context.Context) (stop func())
}

// setting is what a server was started with, and what the files say by now.
type setting struct {
	name          string
	running, next any
}

// changed names the settings that are others by now.
func changed(list []setting) (names []string) {
	for _, s := range list {
		if !reflect.DeepEqual(s.running, s.next) {
			names = append(names, s.name)
		}
	}
	return names
}

// newReloadSuccess returns the gauge of a server that has started, and so with good files.
func newReloadSuccess(r prometheus.Registerer) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_last_reload_success",
		Help: "1 if the configuration files as they are now are in force, 0 if they have an error and older ones are.",
	})
	g.Set(1)
	r.MustRegister(g)
	return g
}

// run follows the files until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	stop := r.running.start(ctx)
	defer func() { stop() }()
	look := time.NewTicker(reloadPeriod)
	defer look.Stop()
	last := r.files.Now()
	for {
		next := r.running
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
			next = r.again()
		case <-look.C:
			now := r.files.Now()
			if settled := maps.Equal(now, last); settled && !maps.Equal(now, r.files.AsRead()) {
				next = r.again()
			}
			last = now
		}
		if next != r.running {
			stop()
			r.running = next
			stop = next.start(ctx)
		}
	}
}

// again reads the files again, and returns what has to run from now on.
func (r *reloader) again() companion {
	next, restart, err := r.reload()
	if err != nil {
		r.success.Set(0)
		for _, e := range multierr.Unjoin(err) {
			r.log.Error("the configuration has an error, the one before stays in force", "error", e)
		}
		return r.running
	}
	r.success.Set(1)
	if restart != nil {
		r.log.Warn("a part of the configuration needs a restart", "fields", restart)
	}
	return next
}

// start runs task in a goroutine, until ctx ends or stop is called, which waits. task
// fails only when ctx has ended.
func start(ctx context.Context, task func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = task(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
