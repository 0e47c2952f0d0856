// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxevent"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// ackTimeout limits the write of an acknowledgement: the relay waits less.
const ackTimeout = time.Second

// Server is the agent of a node.
type Server struct {
	Source  *config.Source[config.Agent]
	Reload  <-chan os.Signal // see daemon.Reloader.Signal
	Version string           // of this binary
	Log     *slog.Logger
	Writer  *daemon.LogWriter // writes Log

	agent  *Agent
	drops  *events.Drops
	relays atomic.Int32 // connections
}

// registerDrift registers a gauge for each kind of drift.
func (s *Server) registerDrift(r prometheus.Registerer) {
	for _, d := range events.Drifts() {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "dnsconfigurer_agent_drifted_files",
			Help:        "Files of running pods that differ from their decision, by kind.",
			ConstLabels: prometheus.Labels{"drift": string(d)},
		}, func() float64 { return float64(s.agent.countDrift(d)) }))
	}
}

// Run serves with configuration c until ctx ends.
func (s *Server) Run(ctx context.Context, c config.Agent) error {
	registry := daemon.NewRegistry(s.Version)
	s.Writer.Register(registry)
	s.agent, s.drops = New(NewMetrics(registry), s.Log), events.NewDrops(registry)
	s.registerDrift(registry)
	reloader := &daemon.Reloader[config.Agent]{Source: s.Source, Signal: s.Reload, Log: s.Log, Apply: s.apply}
	if err := reloader.Start(c, registry); err != nil {
		return err
	}
	listener, err := cri.Listen(config.SocketPath(c.Listen))
	if err != nil {
		return err
	}
	group := daemon.Group{
		Tasks: []daemon.Task{func(ctx context.Context) error { return s.serve(ctx, listener) }, s.agent.Run},
		Last:  []daemon.Task{reloader.Run}, // events that are handled look pods up and report
	}
	if c.HTTP != "" {
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) { return nil, s.ready() }}
		listen := func(ctx context.Context) (net.Listener, error) { return daemon.ListenHTTP(ctx, c.HTTP) }
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return http.KeepServing(ctx, listen) })
	}
	if path := *c.StatusSocket; path != "" {
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return s.serveStatus(ctx, path) })
	}
	s.Log.Info("serving", "listen", c.Listen)
	return group.Run(ctx)
}

// statusRetry is the interval at which serveStatus retries.
const statusRetry = 10 * time.Second

// serveStatus serves the socket for the commands until ctx ends. The pods matter more than the
// commands: an error is logged, and serveStatus retries.
func (s *Server) serveStatus(ctx context.Context, path string) error {
	server := nodestatus.Server{
		Status: s.status, Pods: s.agent.Pods, Refresh: s.agent.RefreshPods, Restore: s.agent.RestorePods,
	}
	logged := ""
	for ctx.Err() == nil {
		listener, err := cri.Listen(path)
		if err == nil {
			err = server.Serve(ctx, listener)
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			s.Log.Error("status socket not served, retrying", "error", err, "interval", statusRetry)
		}
		select {
		case <-time.After(statusRetry):
		case <-ctx.Done():
		}
	}
	return nil
}

// status describes the agent.
func (s *Server) status() v1alpha1.AgentStatus {
	settings := s.agent.settings.Load()
	a := v1alpha1.AgentStatus{
		Version: s.Version, Mode: string(settings.Hook.Mode), Refresh: string(settings.Refresh), DryRun: settings.DryRun,
		Relays: int(s.relays.Load()), Pods: len(s.agent.list()), Drift: map[string]int{}, Problems: []string{},
	}
	for _, d := range events.Drifts() {
		if n := s.agent.countDrift(d); n > 0 {
			a.Drift[string(d)] = n
		}
	}
	if err := s.ready(); err != nil {
		a.Problems = append(a.Problems, err.Error())
	}
	return a
}

func (s *Server) ready() error {
	if s.relays.Load() == 0 {
		return errors.New("the NRI relay is not connected: run dnsconfigurer nri")
	}
	return nil
}

// apply applies c. The background task keeps pods and the host's file up to date.
func (s *Server) apply(c config.Agent) (daemon.Task, error) {
	host, err := decision.NewHostWatcher(c.Node.HostConfig(), s.Log)
	if err != nil {
		return nil, err
	}
	pods := decision.NewLookupConfig(c.Kubeconfig, c.Manifests, c.Node.Name)
	if c.InCluster {
		pods = decision.NewInClusterConfig(c.Manifests, c.Node.Name)
	}
	lookups, err := decision.NewLookups(pods, "dnsconfigurer-agent/"+s.Version, s.drops, s.Log)
	if err != nil {
		return nil, err
	}
	if lookups.ClientErr != nil {
		return nil, lookups.ClientErr
	}
	hook := &cri.Hook{Engine: c.Engine, Mode: c.Mode(), HostFiles: decision.HostFiles(host), Lookup: lookups.Lookup, Report: lookups.Reporter.Report}
	if hook.Mode == cri.Force {
		hook.Lookup = lookups.LookupForced
	}
	lookups.FollowAnnotations(FollowedAnnotations(), s.agent.PodChanged)
	notify := decision.NotifyHost(host, s.agent.HostChanged) // before the decisions with new settings
	s.agent.SetSettings(&Settings{
		Hook: hook, Directories: c.SandboxDirectories, Refresh: Scope(c.Refresh), DryRun: c.RefreshDryRun,
		RefreshRate: c.RefreshRate, Verify: c.Verify, Report: lookups.Reporter.ReportRefresh,
		Annotations: lookups.Annotations,
		Facts:       fmt.Sprint(c.Node.ClusterDNS, c.Node.ClusterDomain, c.Node.ResolvConf, c.Node.IPs),
	})
	s.Log.Info("configuration applied", "mode", c.Mode(), "clusterDNS", c.Node.ClusterDNS, "clusterDomain", c.Node.ClusterDomain, "resolvConf", c.Node.ResolvConf)
	for _, found := range append(c.Node.Findings, c.Engine.CheckHost(hook.HostFiles().Pods)...) {
		s.Log.Warn(found.Message, "reason", found.Reason, "hint", found.Hint)
	}
	return func(ctx context.Context) error {
		return daemon.RunAll(ctx, decision.RunHostWatcher(host), notify, lookups.Run)
	}, nil
}

// serve serves relays until ctx ends.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var relays sync.WaitGroup
	defer func() {
		cancel()
		relays.Wait()
		s.agent.Wait()
	}()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		relays.Go(func() { s.serveRelay(ctx, conn) })
	}
}

// serveRelay handles the events of one connection.
func (s *Server) serveRelay(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	s.relays.Add(1)
	s.agent.Metrics.addConnections(1)
	defer s.agent.Metrics.addConnections(-1)
	defer s.relays.Add(-1)
	s.Log.Info("relay connected")
	err := sandboxevent.Read(conn, func(e sandboxevent.Event) error {
		s.agent.Handle(ctx, e)
		if e.Sequence == 0 {
			return nil
		}
		if err := conn.SetWriteDeadline(time.Now().Add(ackTimeout)); err != nil {
			return err
		}
		return sandboxevent.Write(conn, sandboxevent.Ack{Sequence: e.Sequence})
	})
	if ctx.Err() == nil {
		s.Log.Warn("relay disconnected", "error", err)
	}
}
