// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
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

// reportInterval is the time after which a lasting problem is reported again: an event is deleted
// an hour after the last one (--event-ttl of kube-apiserver).
const reportInterval = 30 * time.Minute

// FollowHost returns a task that calls changed for each change of the file of w after the call of FollowHost,
// and reports when the file is unusable, and when it is usable again. A nil w has no file.
func FollowHost(w *hostresolv.Watcher, r *Reporter, changed func()) func(context.Context) error {
	if w == nil {
		return daemon.NoTask
	}
	s, newer := w.Current()
	return func(ctx context.Context) error {
		interval := time.NewTicker(reportInterval)
		defer interval.Stop()
		reported, due := "", false
		for {
			if problem := hostProblem(s); problem != reported || problem != "" && due {
				r.ReportHostFile(problem)
				reported = problem
			}
			due = false
			select {
			case <-ctx.Done():
				return nil
			case <-newer:
				s, newer = w.Current()
				changed()
			case <-interval.C:
				due = true
			}
		}
	}
}

// hostProblem returns why the host's file is unusable, and what pods get instead. "": it is usable.
func hostProblem(s hostresolv.Snapshot) string {
	switch {
	case s.Problem.Err == nil:
		return ""
	case s.File.Err == nil && len(s.File.Nameservers) > 0:
		return s.Problem.Err.Error() + "; pods get its last usable content"
	default:
		return s.Problem.Err.Error()
	}
}

// HostFiles returns a cri.Hook.HostFiles that reads the files of w. A nil w has no files.
func HostFiles(w *hostresolv.Watcher) func() cri.HostFiles {
	return func() cri.HostFiles {
		if w == nil {
			return cri.HostFiles{}
		}
		s := w.Reread()
		return cri.HostFiles{Pods: s.File, Kubelet: s.Kubelet}
	}
}

// LogFindings logs the findings about the facts of a node, and those about the host's file.
func LogFindings(log *slog.Logger, facts []policy.Finding, engine *policy.Engine, host cri.HostFiles) {
	for _, found := range slices.Concat(facts, engine.CheckHost(host.Pods)) {
		log.Warn(found.Message, "reason", found.Reason, "hint", found.Hint)
	}
}
