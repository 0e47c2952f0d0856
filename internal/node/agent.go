// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ackTimeout limits the write of an acknowledgement: the relay waits less.
const ackTimeout = time.Second

// server is the agent of a node.
type server struct {
	daemon.Process
	agent   *Applier
	drops   *Drops
	facts   atomic.Pointer[v1alpha1.NodeFacts]
	lookups atomic.Pointer[Lookups]
	relays  relays
}

// RunAgent runs the agent of a node with configuration c until ctx ends.
func RunAgent(ctx context.Context, p daemon.Process, source *config.Source[AgentConfig], c AgentConfig) error {
	s := &server{Process: p, agent: newApplier(newMetrics(p.Metrics), p.Log), drops: NewDrops(p.Metrics)}
	s.agent.RegisterDrift(p.Metrics)
	s.relays.register(p.Metrics)
	reloader := &daemon.Reloader[AgentConfig]{Process: p, Source: source, Apply: s.apply}
	if err := reloader.Start(c); err != nil {
		return err
	}
	listener, err := cri.Listen(config.SocketPath(c.Listen))
	if err != nil {
		return err
	}
	group := daemon.Group{
		Tasks: []daemon.Task{func(ctx context.Context) error { return s.serve(ctx, listener) }, s.agent.Run},
		Last:  []daemon.Task{reloader.Run}, // events that are handled look pods up, and report
	}
	http := daemon.HTTP{Process: p, Ready: func() ([]string, error) { return nil, s.relays.ready() }}
	group.Tasks = append(group.Tasks, http.KeepServing(c.HTTP, daemon.ListenHTTP))
	status := filepath.Join(filepath.Dir(config.SocketPath(c.Listen)), filepath.Base(v1alpha1.DefaultStatusSocket))
	group.Tasks = append(group.Tasks, func(ctx context.Context) error { return s.keepServingStatus(ctx, status) })
	s.Log.Info("serving", "listen", c.Listen)
	return group.Run(ctx)
}

// keepServingStatus serves the status socket at path until ctx ends. The pods of the node matter more than the
// commands: an error does not end the agent.
func (s *server) keepServingStatus(ctx context.Context, path string) error {
	server := StatusServer{Status: s.status, Pods: s.agent.Pods, Refresh: s.agent.RefreshPods, Restore: s.agent.RestorePods}
	return daemon.Keep(ctx, s.Log, "status socket not served, retrying", func() error {
		l, err := cri.Listen(path)
		if err != nil {
			return fmt.Errorf("status socket: %w", err)
		}
		return server.Serve(ctx, l)
	})
}

// status describes the agent.
func (s *server) status() v1alpha1.AgentStatus {
	a := s.agent.Status()
	a.Component, a.Version = "agent", s.Version
	a.Relays = int(s.relays.connected.Load())
	a.NodeFacts = s.facts.Load()
	if err := s.relays.ready(); err != nil {
		a.Problems = append(a.Problems, err.Error())
	}
	return a
}

// apply applies c. The background task keeps pods and the host's file up to date.
func (s *server) apply(c AgentConfig) (daemon.Task, error) {
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	pods := NewLookupConfig(c.NodeServerConfiguration, inPod)
	lookups, err := NewLookups(pods, "dnsconfigurer-agent/"+s.Version, s.drops, s.Log)
	if err != nil {
		return nil, err
	}
	if lookups.ClientErr != nil {
		return nil, lookups.ClientErr
	}
	lookups.pods.FollowAnnotations(FollowedAnnotations(), s.agent.PodChanged)
	host := hostresolv.New(c.Node.HostConfig(s.Log))
	hook := &cri.Hook{Engine: c.Engine, Mode: c.Mode(), HostFiles: HostFiles(host),
		Lookup: lookups.Lookup(c.Mode()), Report: lookups.Reporter.Report}
	follow := FollowHost(host, lookups.Reporter, s.agent.HostChanged) // before the decisions with new settings
	s.agent.SetSettings(newSettings(hook, c, lookups))
	facts := &v1alpha1.NodeFacts{ClusterDNS: []string{}, ClusterDomain: c.Node.ClusterDomain, ResolvConf: c.Node.ResolvConf}
	for _, a := range c.Node.ClusterDNS {
		facts.ClusterDNS = append(facts.ClusterDNS, a.String())
	}
	s.facts.Store(facts)
	LogApplied(s.Log, c.Node, hook)
	s.lookups.Store(lookups)
	return func(ctx context.Context) error { return daemon.RunAll(ctx, host.Run, follow, lookups.Run) }, nil
}

// serve serves relays and shims until ctx ends.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer func() {
		cancel()
		connections.Wait()
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
		connections.Go(func() { s.serveSource(ctx, conn) })
	}
}

// serveSource handles the events of one connection, of a relay or a shim.
func (s *server) serveSource(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	report, remove := s.relays.add()
	defer remove()
	s.Log.Info("relay or shim connected")
	err := podfile.Read(conn, func(e podfile.Event) error {
		report(e.Kind)
		s.agent.Handle(ctx, e)
		if e.Sequence == 0 {
			return nil
		}
		if err := conn.SetWriteDeadline(time.Now().Add(ackTimeout)); err != nil {
			return err
		}
		ack := podfile.Ack{Sequence: e.Sequence}
		if e.Kind == podfile.Registering {
			stopping, known := s.lookups.Load().stopping()
			ack.Stopping, ack.Unknown = stopping, !known
		}
		return podfile.Write(conn, ack)
	})
	if ctx.Err() == nil {
		s.Log.Warn("relay or shim disconnected", "error", err)
	}
}

// relays counts the connections of relays and shims. The zero value is ready to use.
type relays struct {
	connected, withRuntime atomic.Int32
}

// register registers the metrics with registry.
func (r *relays) register(registry prometheus.Registerer) {
	gauge := func(name, help string, value *atomic.Int32) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value.Load()) }))
	}
	gauge("dnsconfigurer_agent_relay_connections", "Connections of NRI relays and shims.", &r.connected)
	gauge("dnsconfigurer_agent_relay_runtime_connections",
		"Connections of NRI relays and shims that are connected to the container runtime, too.", &r.withRuntime)
}

// add adds a connection that has reported nothing. report notes what an event says about the runtime.
func (r *relays) add() (report func(podfile.Kind), remove func()) {
	r.connected.Add(1)
	synchronized := int32(0) // 1: it is connected to the runtime, and has announced all sandboxes
	set := func(now int32) {
		r.withRuntime.Add(now - synchronized)
		synchronized = now
	}
	report = func(kind podfile.Kind) {
		switch kind {
		case podfile.Synchronized:
			set(1)
		case podfile.Unsynchronized:
			set(0)
		}
	}
	return report, func() {
		set(0)
		r.connected.Add(-1)
	}
}

// ready returns an error if no relay is connected, or none of them to the runtime.
func (r *relays) ready() error {
	switch {
	case r.connected.Load() == 0:
		return errors.New("no NRI relay or shim is connected: run dnsconfigurer nri")
	case r.withRuntime.Load() == 0:
		return errors.New("the NRI relay or shim is not connected to the container runtime: new pods get the kubelet's DNS: " +
			"its log has the reason")
	}
	return nil
}

// The directories in which container runtimes keep the files of sandboxes.
const (
	containerdSandboxes = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
	crioSandboxes       = "/run/containers/storage/overlay-containers"
	k3sSandboxes        = "/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes"
)

// AgentConfig is a validated AgentConfiguration.
type AgentConfig struct {
	v1alpha1.AgentConfiguration

	Node   nodefacts.Node
	Engine *policy.Engine
}

// AgentKind describes the file of the command agent.
func AgentKind() *config.Kind[AgentConfig] {
	return &config.Kind[AgentConfig]{
		Check: checkAgent,
		Finish: func(c *AgentConfig, s *config.Source[AgentConfig]) (err error) {
			c.Node, c.Engine, err = nodefacts.NewServerNode(c.NodeServerConfiguration, s)
			return err
		},
	}
}

// Mode returns the mode of the agent.
func (c *AgentConfig) Mode() cri.Mode { return cri.Mode(c.AgentConfiguration.Mode) }

func checkAgent(c *AgentConfig, p *config.Problems) {
	if len(c.SandboxDirectories) == 0 {
		c.SandboxDirectories = []string{containerdSandboxes, crioSandboxes, k3sSandboxes}
	}
	nodefacts.CheckRules(&c.AgentConfiguration.Node, p)
}
