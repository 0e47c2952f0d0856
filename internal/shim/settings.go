// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// pollPeriod is how often the files are compared with what was read, and how often the shim
// retries what has failed.
const pollPeriod = 5 * time.Second

// The parts of the shim that have problems.
const (
	partConfig   = "configuration"
	partClient   = "API client"
	partLastGood = "last good settings"
)

// The origins of the settings in use, label values of dnsconfigurer_config_source.
const (
	fromFiles    = "files"     // the configuration files, as they are or as they were when they were last valid
	fromLastGood = "last_good" // the file of lastGood
	fromNothing  = "none"      // there are no settings: every sandbox is passed
)

// settings are a valid configuration, or the reason why there is none.
type settings struct {
	Config
	err error
}

func newSettings(c Config, err error) settings { return settings{c, err} }

// load returns the settings of the files and flags.
func (s *server) load() settings {
	if s.flagsErr != nil {
		return settings{err: s.flagsErr}
	}
	return newSettings(s.source.Load())
}

// start applies the first settings that are valid: those of the files, or the last good ones, or none.
func (s *server) start(files, last settings) {
	if files.err == nil {
		files.err = s.applyFiles(files.Config)
	}
	if files.err == nil {
		return
	}
	s.success.Set(0)
	if last.err == nil {
		last.err = s.apply(last.Config)
	}
	if last.err == nil {
		s.applied = last.Config
		s.setOrigin(fromLastGood)
		s.setClientProblem()
	} else {
		s.setOrigin(fromNothing)
		report := node.NewReporter(nil, "", s.drops, s.Log).Report
		s.shim.SetHook(&cri.Hook{Problem: files.err, Report: report}) // passes every sandbox unchanged
		if !errors.Is(last.err, errNoState) && !errors.Is(last.err, os.ErrNotExist) {
			s.problems.set(partLastGood, "cannot read the last good settings", last.err)
		}
	}
	s.setConfigProblem(files.err)
}

// keepSettings keeps the settings up to date until ctx ends.
func (s *server) keepSettings(ctx context.Context) error {
	defer s.endTasks()
	poll := time.NewTicker(pollPeriod)
	defer poll.Stop()
	s.source.Changed() // the first poll
	for {
		s.startTasks(ctx)
		s.saveLastGood()
		select {
		case <-ctx.Done():
			return nil
		case <-s.Reload:
			s.reload()
		case <-poll.C:
			// A file that changes between two polls may be half-written.
			if s.source.Changed() {
				s.reload()
			} else if s.source.Settled() {
				s.retry()
			}
		}
	}
}

// retry tries again what has failed, while the files stay as they are.
func (s *server) retry() {
	if s.problems.has(partConfig) {
		s.reload()
	}
	// The kubeconfig of the last good settings is not one of the files of s.source.
	if s.problems.has(partClient) || s.current == fromLastGood {
		c, old := s.applied, s.lookups
		if err := s.setLookups(node.NewLookupConfig(c.NodeServerConfiguration, false)); err == nil && s.lookups != old {
			s.setHook(c)
			s.Log.Info("API client created", "kubeconfig", c.Kubeconfig)
		}
		s.setClientProblem()
	}
}

// saveLastGood saves the settings for a start with an invalid configuration. It waits for the disk,
// so it runs after the shim serves.
func (s *server) saveLastGood() {
	if s.current == fromFiles && !s.saved {
		err := s.lastGood.save(s.applied)
		s.problems.set(partLastGood, "cannot keep the settings for the next start", err)
		s.saved = err == nil
	}
}

// reload applies the files again. If that fails, the settings stay.
func (s *server) reload() {
	files := s.load()
	if files.err == nil {
		files.err = s.applyFiles(files.Config)
	}
	if files.err != nil {
		s.success.Set(0)
		s.setConfigProblem(files.err)
		return
	}
	if fields := s.source.NeedRestart(s.serving, files.Config); fields != nil {
		s.Log.Warn("changed fields take effect after a restart", "fields", fields)
	}
}

// applyFiles applies the configuration of the files. saveLastGood saves it.
func (s *server) applyFiles(c Config) error {
	if err := s.apply(c); err != nil {
		return err
	}
	s.applied, s.saved = c, false
	s.success.Set(1)
	s.setOrigin(fromFiles)
	s.setConfigProblem(nil)
	s.setClientProblem()
	return nil
}

func (s *server) setOrigin(origin string) {
	s.current = origin
	for _, o := range []string{fromFiles, fromLastGood, fromNothing} {
		s.origin.WithLabelValues(o).Set(0)
	}
	s.origin.WithLabelValues(origin).Set(1)
}

// setConfigProblem records the error of the configuration files; nil is none.
func (s *server) setConfigProblem(err error) {
	message := "invalid configuration, keeping the previous one"
	switch s.current {
	case fromLastGood:
		message = "invalid configuration, using the last good settings"
	case fromNothing:
		message = "invalid configuration, passing all sandboxes unchanged"
	}
	s.problems.set(partConfig, message, err)
}

func (s *server) setClientProblem() {
	s.problems.set(partClient, "cannot create the API client, retrying", s.clientErr)
}

// apply applies c. If it fails, nothing has changed. The background tasks run after the next
// call of startTasks.
func (s *server) apply(c Config) error {
	if err := s.setLookups(node.NewLookupConfig(c.NodeServerConfiguration, false)); err != nil {
		return err
	}
	// The watcher is kept if its configuration is equal: it may have the last good content of
	// a file that was removed.
	if cfg := c.Node.HostConfig(s.Log); s.host == nil || cfg != s.hostCfg {
		s.host, s.hostCfg = hostresolv.New(cfg), cfg
		s.hostTask.next = s.host.Run
	}
	node.LogApplied(s.Log, c.Node, s.setHook(c))
	return nil
}

// setHook makes the shim use c and the lookups. It returns the hook.
func (s *server) setHook(c Config) *cri.Hook {
	hook := &cri.Hook{
		Engine: c.Engine, Mode: c.Mode(), FailUnknown: c.FailUnknown(), HostFiles: node.HostFiles(s.host),
		Lookup: s.lookups.Lookup(c.Mode()), Report: s.lookups.Reporter.Report,
	}
	s.shim.SetHook(hook)
	s.hostReport.next = node.FollowHost(s.host, s.lookups.Reporter, func() {})
	return hook
}

// setLookups replaces the lookups if their configuration has changed, or if the last client of
// the API server could not be created. Previous lookups with a client are kept until there is
// another client.
func (s *server) setLookups(cfg node.LookupConfig) error {
	if s.lookups != nil && cfg == s.lookupCfg && s.clientErr == nil {
		return nil
	}
	next, err := node.NewLookups(cfg, "dnsconfigurer-shim/"+s.Version, s.drops, s.Log)
	if err != nil {
		return err
	}
	s.clientErr = next.ClientErr
	if old := s.lookups; old != nil && next.ClientErr != nil && (old.HasClient() || cfg == s.lookupCfg) {
		return nil
	}
	s.lookups, s.lookupCfg, s.lookupsTask.next = next, cfg, next.Run
	return nil
}

// startTasks starts the background tasks that were replaced.
func (s *server) startTasks(ctx context.Context) {
	s.hostTask.start(ctx)
	s.lookupsTask.start(ctx)
	s.hostReport.start(ctx)
}

// endTasks ends the background tasks.
func (s *server) endTasks() {
	s.hostReport.end()
	s.hostTask.end()
	s.lookupsTask.end()
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
