// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// shimInForce puts settings in force in a shim.
type shimInForce struct {
	load func() (settings, error) // reads the files
	shim *cri.Shim                // gets a new hook for each settings
	hook cri.Hook                 // what all hooks have in common
	log  *slog.Logger

	first settings  // what the shim was started with
	host  hostWatch // of the settings in force
}

// start puts the settings in force with which the shim is started.
func (f *shimInForce) start(s settings) error {
	f.first = s
	return f.use(s)
}

// reload is a reloader's.
func (f *shimInForce) reload() (companion, []string, error) {
	next, err := f.load()
	if err == nil {
		err = f.use(next)
	}
	return f.host, f.first.needRestart(next), err
}

// use puts s in force.
func (f *shimInForce) use(s settings) error {
	host, n := f.host, s.node
	if cfg := n.HostConfig(); cfg != host.cfg { // else it stays: it may know a good file that is gone
		var err error
		if host, err = newHostWatch(cfg, f.log); err != nil {
			return err
		}
	}
	hook := f.hook
	hook.Engine, hook.Mode, hook.HostFiles = s.engine, s.mode, host.files
	f.shim.SetHook(&hook)
	f.host = host
	f.log.Info("settings in force", "mode", s.mode, "clusterDNS", n.ClusterDNS, "clusterDomain", n.ClusterDomain, "resolvConf", n.ResolvConf)
	for _, found := range append(n.Findings, s.engine.CheckHost(host.files().Pods)...) {
		f.log.Warn(found.Message, "reason", found.Reason, "hint", found.Hint)
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

// files returns the host's resolv.conf as it is now.
func (h hostWatch) files() cri.HostFiles {
	if h.watcher == nil {
		return cri.HostFiles{}
	}
	s := h.watcher.Refresh()
	return cri.HostFiles{Pods: s.File, Kubelet: s.Kubelet}
}

// start watches until ctx ends or stop is called.
func (h hostWatch) start(ctx context.Context) (stop func()) {
	if h.watcher == nil {
		return func() {}
	}
	return start(ctx, h.watcher.Run)
}
