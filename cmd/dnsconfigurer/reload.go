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

	first settings  // what the shim was started with
	host  hostWatch // of the settings in force
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
	return r.use(s)
}

// run follows the files until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	watched := r.host
	stop := watched.start(ctx)
	defer func() { stop() }()
	look := time.NewTicker(reloadPeriod)
	defer look.Stop()
	last := r.files.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
			r.reload()
		case <-look.C:
			now := r.files.now()
			if settled := maps.Equal(now, last); settled && !maps.Equal(now, r.files.seen) {
				r.reload()
			}
			last = now
		}
		if r.host != watched {
			stop()
			watched = r.host
			stop = watched.start(ctx)
		}
	}
}

// reload reads the files again and puts what they say in force.
func (r *reloader) reload() {
	next, err := r.load()
	if err == nil {
		err = r.use(next)
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
func (r *reloader) use(s settings) error {
	host, n := r.host, s.node
	if cfg := n.hostConfig(); cfg != host.cfg { // else it stays: it may know a good file that is gone
		var err error
		if host, err = newHostWatch(cfg, r.log); err != nil {
			return err
		}
	}
	hook := r.hook
	hook.Engine, hook.Mode, hook.Host, hook.KubeletHost = s.engine, s.mode, host.file, host.asked
	r.shim.Use(&hook)
	r.host = host
	r.success.Set(1)
	r.log.Info("settings in force", "mode", s.mode, "clusterDNS", n.ClusterDNS, "clusterDomain", n.ClusterDomain, "resolvConf", n.ResolvConf)
	for _, f := range append(n.findings, s.engine.CheckHost(host.file())...) {
		r.log.Warn(f.Message, "reason", f.Reason, "hint", f.Hint)
	}
	return nil
}

// hostWatch watches the host's resolv.conf that some settings name. The zero value is
// that of a node without one.
type hostWatch struct {
	cfg     hostresolv.Config
	watcher *hostresolv.Watcher // nil: there is no file
}

func newHostWatch(cfg hostresolv.Config, log *slog.Logger) (hostWatch, error) {
	if cfg.Path == "" {
		return hostWatch{cfg: cfg}, nil
	}
	logged := cfg
	logged.Logger = log
	w, err := hostresolv.New(logged)
	return hostWatch{cfg, w}, err
}

// file returns the file that pods are to get, as it is now.
func (h hostWatch) file() resolvconf.File {
	if h.watcher == nil {
		return resolvconf.File{}
	}
	return h.watcher.Refresh().File
}

// asked returns the file that the kubelet reads, as it is now.
func (h hostWatch) asked() resolvconf.File {
	if h.watcher == nil {
		return resolvconf.File{}
	}
	return h.watcher.Refresh().Asked
}

// start watches until ctx ends or stop is called, which waits.
func (h hostWatch) start(ctx context.Context) (stop func()) {
	if h.watcher == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.watcher.Run(ctx) // it has no errors
	}()
	return func() {
		cancel()
		<-done
	}
}
