// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"log/slog"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// NewHostWatcher returns the watcher of the host's file, nil if the node has none.
func NewHostWatcher(cfg hostresolv.Config, log *slog.Logger) (*hostresolv.Watcher, error) {
	if cfg.Path == "" {
		return nil, nil
	}
	cfg.Logger = log
	return hostresolv.New(cfg)
}

// RunHostWatcher returns the task of w. A nil w has nothing to do.
func RunHostWatcher(w *hostresolv.Watcher) func(context.Context) error {
	if w == nil {
		return daemon.NoTask
	}
	return w.Run
}

// NotifyHost returns a task that calls notify when the file of w has changed since the call of
// NotifyHost. A nil w has no file.
func NotifyHost(w *hostresolv.Watcher, notify func()) func(context.Context) error {
	if w == nil {
		return daemon.NoTask
	}
	_, newer := w.Current()
	return func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-newer:
			}
			_, newer = w.Current()
			notify()
		}
	}
}

// HostFiles returns a cri.Hook.HostFiles that reads the files of w. A nil w has no files.
func HostFiles(w *hostresolv.Watcher) func() cri.HostFiles {
	return func() cri.HostFiles {
		if w == nil {
			return cri.HostFiles{}
		}
		s := w.Refresh()
		return cri.HostFiles{Pods: s.File, Kubelet: s.Kubelet}
	}
}
