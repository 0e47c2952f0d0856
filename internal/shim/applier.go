// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// An applier applies configurations to a shim: it sets a new hook for each, and replaces the
// background tasks whose configuration has changed.
type applier struct {
	shim    *cri.Shim
	metrics *cri.Metrics
	drops   *node.Drops
	version string // of the User-Agent at the API server
	log     *slog.Logger

	host       *hostresolv.Watcher // nil: the node has no host file
	hostCfg    hostresolv.Config   // of host
	hostTask   slot
	hostReport slot // reports an unusable host file as events, through lookups

	lookups     *node.Lookups
	lookupCfg   node.LookupConfig // of lookups
	lookupsTask slot
	clientErr   error // why the last client of the API server could not be created
}

// passAll makes the shim pass every sandbox unchanged, because of problem.
func (a *applier) passAll(problem error) {
	a.shim.SetHook(&cri.Hook{Problem: problem, Report: node.NewReporter(nil, "", a.drops, a.log).Report, Metrics: a.metrics})
}

// apply applies c. If it fails, nothing has changed. The background tasks run after the next
// call of start.
func (a *applier) apply(c Config) error {
	host := a.host
	cfg := c.Node.HostConfig()
	// The watcher is kept if its configuration is equal: it may have the last good content of
	// a file that was removed.
	if cfg != a.hostCfg {
		var err error
		if host, err = node.NewHostWatcher(cfg, a.log); err != nil {
			return err
		}
	}
	if err := a.setLookups(node.NewLookupConfig(c.NodeServerConfiguration, false)); err != nil {
		return err
	}
	if cfg != a.hostCfg {
		a.host, a.hostCfg, a.hostTask.next = host, cfg, node.RunHostWatcher(host)
	}
	node.LogApplied(a.log, c.Node, a.setHook(c))
	return nil
}

// retryClient tries again to create the client of the API server.
func (a *applier) retryClient(c Config) {
	old := a.lookups
	if err := a.setLookups(node.NewLookupConfig(c.NodeServerConfiguration, false)); err == nil && a.lookups != old {
		a.setHook(c)
		a.log.Info("API client created", "kubeconfig", c.Kubeconfig)
	}
}

// setHook makes the shim use c and the lookups. It returns the hook.
func (a *applier) setHook(c Config) *cri.Hook {
	hook := &cri.Hook{
		Engine: c.Engine, Mode: c.Mode(), FailUnknown: c.FailUnknown(), HostFiles: node.HostFiles(a.host),
		Lookup: a.lookups.Lookup(c.Mode()), Report: a.lookups.Reporter.Report, Metrics: a.metrics,
	}
	a.shim.SetHook(hook)
	a.hostReport.next = node.FollowHost(a.host, a.lookups.Reporter, func() {})
	return hook
}

// setLookups replaces the lookups if their configuration has changed, or if the last client of
// the API server could not be created. Previous lookups with a client are kept until there is
// another client.
func (a *applier) setLookups(cfg node.LookupConfig) error {
	if a.lookups != nil && cfg == a.lookupCfg && a.clientErr == nil {
		return nil
	}
	next, err := node.NewLookups(cfg, "dnsconfigurer-shim/"+a.version, a.drops, a.log)
	if err != nil {
		return err
	}
	a.clientErr = next.ClientErr
	if old := a.lookups; old != nil && next.ClientErr != nil && (old.HasClient() || cfg == a.lookupCfg) {
		return nil
	}
	a.lookups, a.lookupCfg, a.lookupsTask.next = next, cfg, next.Run
	return nil
}

// start starts the background tasks that were replaced.
func (a *applier) start(ctx context.Context) {
	a.hostTask.start(ctx)
	a.lookupsTask.start(ctx)
	a.hostReport.start(ctx)
}

// end ends the background tasks.
func (a *applier) end() {
	a.hostReport.end()
	a.hostTask.end()
	a.lookupsTask.end()
}

// A slot runs one background task at a time. It is not safe for concurrent use.
type slot struct {
	next daemon.Task // not started yet; nil: none
	stop func()      // ends the running task and waits for it; nil: none runs
}

// start starts the next task instead of the running one.
func (s *slot) start(ctx context.Context) {
	if s.next == nil {
		return
	}
	s.end()
	s.next, s.stop = nil, daemon.Start(ctx, s.next)
}

// end ends the running task.
func (s *slot) end() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Check builds what the server builds for a valid configuration, and returns the errors. A container
// runtime or an API server that does not run is not an error.
func Check(c Config) error {
	var problems []error
	if err := cri.CheckEndpoints(config.SocketPath(c.Listen), config.SocketPath(c.RuntimeEndpoint)); err != nil {
		problems = append(problems, err)
	}
	// Another user than root does not own the directory of a shim that runs as root.
	if os.Geteuid() == 0 {
		problems = append(problems, cri.CheckListen(config.SocketPath(c.Listen)))
	}
	if _, err := node.NewClient(c.Kubeconfig, ""); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
