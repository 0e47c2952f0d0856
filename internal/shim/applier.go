// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"log/slog"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// An applier applies configurations to a shim: it sets a new hook for each.
type applier struct {
	shim *cri.Shim
	hook cri.Hook // has the fields that are equal in all hooks
	log  *slog.Logger

	host    *hostresolv.Watcher // nil: the node has no host file
	hostCfg hostresolv.Config   // of host
}

// apply is for a daemon.Reloader. The background task watches the host's file.
func (a *applier) apply(c config.Shim) (background daemon.Task, err error) {
	// The watcher is kept if its configuration is equal: it may have the last good content of
	// a file that was removed.
	if cfg := c.Node.HostConfig(); cfg != a.hostCfg {
		host, err := newHostWatcher(cfg, a.log)
		if err != nil {
			return nil, err
		}
		a.host, a.hostCfg, background = host, cfg, daemon.NoTask
		if host != nil {
			background = host.Run
		}
	}
	hook := a.hook
	hook.Engine, hook.Mode, hook.HostFiles = c.Engine, c.Mode(), hostFiles(a.host)
	a.shim.SetHook(&hook)
	a.log.Info("configuration applied", "mode", hook.Mode, "clusterDNS", c.Node.ClusterDNS, "clusterDomain", c.Node.ClusterDomain, "resolvConf", c.Node.ResolvConf)
	for _, found := range append(c.Node.Findings, c.Engine.CheckHost(hook.HostFiles().Pods)...) {
		a.log.Warn(found.Message, "reason", found.Reason, "hint", found.Hint)
	}
	return background, nil
}

// newHostWatcher returns the watcher of the host's file, nil if the node has none.
func newHostWatcher(cfg hostresolv.Config, log *slog.Logger) (*hostresolv.Watcher, error) {
	if cfg.Path == "" {
		return nil, nil
	}
	cfg.Logger = log
	return hostresolv.New(cfg)
}

// hostFiles returns a cri.Hook.HostFiles that reads the files of w. A nil w has no files.
func hostFiles(w *hostresolv.Watcher) func() cri.HostFiles {
	return func() cri.HostFiles {
		if w == nil {
			return cri.HostFiles{}
		}
		s := w.Refresh()
		return cri.HostFiles{Pods: s.File, Kubelet: s.Kubelet}
	}
}
