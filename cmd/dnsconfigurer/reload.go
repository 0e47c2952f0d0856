// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// reloadPeriod is how often the configuration files are looked at. They are small, and
// reading them sees what the watch of a directory does not: bind mounts, swapped
// links, network file systems.
const reloadPeriod = 5 * time.Second

// reloader holds a shim to what its configuration files say. A change counts when it is
// the same for two looks, so that a file is not read half written, or at once when
// hangup says so. A file with an error changes nothing.
type reloader struct {
	load   func() (settings, error) // reads the files
	files  *files                   // that load has read
	hangup <-chan os.Signal
	shim   *cri.Shim // gets a new hook for each settings
	hook   cri.Hook  // what all hooks have in common

	success prometheus.Gauge
	log     *slog.Logger

	first settings // what the shim was started with
	host  *hostresolv.Watcher
	watch hostresolv.Config // of host
	stop  func()            // ends host; nil: it does not run
}

func newReloadSuccess(r prometheus.Registerer) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dnsconfigurer_config_last_reload_success",
		Help: "1 if the configuration files as they are now are in force, 0 if they have an error and older ones are.",
	})
	r.MustRegister(g)
	return g
}

// start puts the settings in force with which the shim is started.
func (r *reloader) start(s settings) error {
	r.first = s
	return r.use(context.Background(), s)
}

// run follows the files until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	r.runHost(ctx)
	defer func() { r.stop() }()
	look := time.NewTicker(reloadPeriod)
	defer look.Stop()
	last := r.files.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
			r.reload(ctx)
		case <-look.C:
			now := r.files.now()
			if settled := maps.Equal(now, last); settled && !maps.Equal(now, r.files.seen) {
				r.reload(ctx)
			}
			last = now
		}
	}
}

// reload reads the files again and puts what they say in force.
func (r *reloader) reload(ctx context.Context) {
	next, err := r.load()
	if err == nil {
		err = r.use(ctx, next)
	}
	if err != nil {
		r.success.Set(0)
		for _, e := range each(err) {
			r.log.Error("the configuration has an error, the one before stays in force", "error", e)
		}
		return
	}
	if fields := r.first.needRestart(next); fields != nil {
		r.log.Warn("a part of the configuration needs a restart of the shim", "fields", fields)
	}
}

// use puts s in force.
func (r *reloader) use(ctx context.Context, s settings) error {
	hook := r.hook
	hook.Engine, hook.Mode, hook.Host = s.engine, s.mode, func() resolvconf.File { return resolvconf.File{} }
	host, watch := r.host, s.node.hostConfig()
	if host == nil || watch != r.watch { // else it stays: it may know a good file that is gone
		if host = nil; watch.Path != "" {
			var err error
			watched := watch
			watched.Logger = r.log
			if host, err = hostresolv.New(watched); err != nil {
				return err
			}
		}
	}
	if host != nil {
		hook.Host = func() resolvconf.File { return host.Refresh().File }
		hook.KubeletHost = func() resolvconf.File { return host.Refresh().Asked }
	}
	r.shim.Use(&hook)
	if old := r.host; old != host {
		r.host, r.watch = host, watch
		if r.stop != nil {
			r.stop()
			r.runHost(ctx)
		}
	}
	r.success.Set(1)
	r.tell(s, hook)
	return nil
}

// runHost runs the watcher of the present settings until ctx ends or stop is called.
func (r *reloader) runHost(ctx context.Context) {
	if r.host == nil {
		r.stop = func() {}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	host := r.host
	go func() {
		defer close(done)
		_ = host.Run(ctx) // it has no errors
	}()
	r.stop = func() {
		cancel()
		<-done
	}
}

// tell logs what is in force, and what is wrong with it.
func (r *reloader) tell(s settings, hook cri.Hook) {
	n := s.node
	r.log.Info("settings in force", "mode", s.mode, "clusterDNS", n.ClusterDNS, "clusterDomain", n.ClusterDomain, "resolvConf", n.ResolvConf)
	for _, f := range append(n.findings, s.engine.CheckHost(hook.Host())...) {
		r.log.Warn(f.Message, "reason", f.Reason, "hint", f.Hint)
	}
}
