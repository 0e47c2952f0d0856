// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/decision"
	"github.com/dnsconfigurer/dnsconfigurer/internal/handover"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/sandboxdns"
	"github.com/dnsconfigurer/dnsconfigurer/internal/systemd"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Server is the shim of a node.
type Server struct {
	Source   *config.Source[config.Shim]
	FlagsErr error            // why the command line is invalid: all sandboxes are passed
	Reload   <-chan os.Signal // reloads at once
	Version  string           // of this binary
	Log      *slog.Logger
	Writer   *daemon.LogWriter // writes Log
}

// Run serves until ctx ends, or a new process serves and the calls of this one are complete. A
// node without its shim starts and stops no pods, so only an unusable socket or runtime endpoint
// is an error. Any other problem of the configuration is logged, and until it is solved the shim
// uses its last good settings or passes all sandboxes unchanged. But a process that takes over
// from another one needs a valid configuration: the other one goes on with its settings.
func (s *Server) Run(ctx context.Context) error {
	previous, err := handover.Receive()
	if err != nil {
		return err
	}
	err = s.run(ctx, previous)
	if err != nil && previous != nil {
		previous.Refuse(err)
	}
	return err
}

// run is Run. previous is the process to take over from, nil if there is none.
func (s *Server) run(ctx context.Context, previous *handover.Predecessor) error {
	registry := daemon.NewRegistry(s.Version)
	s.Writer.Register(registry)
	shim := &cri.Shim{Metrics: cri.NewMetrics(registry), Log: s.Log}
	problems := &problemList{log: s.Log}
	h := &handovers{shim: shim, http: &httpSocket{}, status: &statusSocket{}, log: s.Log, previous: previous,
		done: make(chan struct{}), isMain: make(chan struct{})}
	sandboxes := newSandboxes(sandboxdns.New(sandboxdns.NewShimMetrics(registry), s.Log), s.Log)
	sandboxes.dns.RegisterDrift(registry)
	shim.Handover = h.handOver
	r := &reloader{
		source: s.Source, flags: s.FlagsErr, signal: s.Reload, lastGood: newLastGood(), problems: problems, handedOver: h.done, log: s.Log,
		applier: &applier{shim: shim, metrics: shim.Metrics, pods: decision.NewMetrics(registry, "dnsconfigurer_shim_"),
			sandboxes: sandboxes, version: s.Version, log: s.Log},
	}
	r.register(registry)
	endpoints, err := s.open(ctx, r, h)
	if err != nil {
		return err
	}
	if dir := stateDirectory(); dir != "" {
		b := bypass.Bypass{Runtime: config.SocketPath(endpoints.Runtime), State: dir}
		problems.set("bypass", "cannot prepare the bypass", b.LinkRuntime())
	}
	h.register(registry)
	h.notifier, err = systemd.NewNotifier()
	problems.set("systemd", "cannot notify systemd", err)
	group := daemon.Group{
		Tasks: []daemon.Task{h.serve, h.logShutdown, h.runMain,
			h.asMain(func(ctx context.Context) error { return sandboxes.run(ctx, endpoints.Runtime) })},
		Last: []daemon.Task{r.run}, // calls that are drained look pods up and report
	}
	if endpoints.HTTP != "" {
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) {
			if ctx.Err() != nil {
				return nil, errStopping
			}
			return problems.lines(), shim.Ready()
		}}
		// The calls that are drained count in the last scrape, too.
		group.Last = append(group.Last, h.untilHandover(func(ctx context.Context) error { return http.KeepServing(ctx, h.http.listen) }))
	}
	if sandboxes.socket != "" {
		status := s.newStatusServer(sandboxes.dns)
		group.Tasks = append(group.Tasks, h.asMain(func(ctx context.Context) error {
			return status.KeepServing(ctx, h.status.listen, s.Log)
		}))
	}
	s.Log.Info("serving", "listen", endpoints.Listen, "runtime", endpoints.Runtime)
	return group.Run(ctx)
}

// errStopping is the reason why a shim that completes its last calls is not ready.
var errStopping = errors.New("the shim is shutting down")

// newStatusServer returns the server of the status socket.
func (s *Server) newStatusServer(a *sandboxdns.Applier) *nodestatus.Server {
	return &nodestatus.Server{
		Status: func() v1alpha1.AgentStatus {
			status := a.Status()
			status.Component, status.Version = "shim", s.Version
			return status
		},
		Pods: a.Pods, Refresh: a.RefreshPods, Restore: a.RestorePods,
	}
}

// open opens the socket and applies the first settings.
func (s *Server) open(ctx context.Context, r *reloader, h *handovers) (config.Endpoints, error) {
	var files settings
	load := func() error {
		files = r.load()
		return nil
	}
	if err := daemon.Interruptible(ctx, load); err != nil {
		return config.Endpoints{}, err
	}
	if h.previous != nil {
		if files.err != nil {
			return config.Endpoints{}, fmt.Errorf("invalid configuration: %w", files.err)
		}
		return s.takeOver(r, h, files.Shim)
	}
	last := settings{err: errNoState}
	if files.err != nil {
		last = newSettings(r.lastGood.load())
	}
	socket, err := systemd.Socket()
	if err != nil {
		return config.Endpoints{}, err
	}
	endpoints, others, err := s.restartFields(files, last, socket)
	if err != nil {
		return endpoints, err
	}
	if err := cri.CheckEndpoints(config.SocketPath(endpoints.Listen), config.SocketPath(endpoints.Runtime)); err != nil {
		return endpoints, err
	}
	if h.listener, err = listen(endpoints.Listen, socket); err != nil {
		return endpoints, err
	}
	h.setRestartFields(endpoints, others, r)
	r.start(files, last)
	return endpoints, nil
}

// restartFields returns the fields that take effect after a restart. If the files are invalid, the
// endpoints are those that can be read, and the others are the last good ones or the defaults.
func (s *Server) restartFields(files, last settings, socket *os.File) (e config.Endpoints, others config.Shim, err error) {
	switch {
	case files.err == nil:
		return files.Endpoints(), files.Shim, nil
	case last.err == nil:
		others = last.Shim
	default:
		others = config.ShimKind().Defaults()
	}
	e, err = config.LoadEndpoints(s.Source, last.Endpoints(), config.Endpoints{Listen: socketPath(socket)})
	return e, others, err
}

// takeOver takes the socket of the previous process and applies the settings.
func (s *Server) takeOver(r *reloader, h *handovers, c config.Shim) (config.Endpoints, error) {
	endpoints := c.Endpoints()
	if err := cri.CheckEndpoints(config.SocketPath(endpoints.Listen), config.SocketPath(endpoints.Runtime)); err != nil {
		return endpoints, err
	}
	h.http.address = endpoints.HTTP
	if c.StatusSocket != nil {
		h.status.path = *c.StatusSocket
	}
	if err := h.receive(config.SocketPath(endpoints.Listen)); err != nil {
		return endpoints, err
	}
	h.setRestartFields(endpoints, c, r)
	if err := r.applyFiles(c); err != nil {
		return endpoints, err
	}
	h.warm = r.applier.lookups.Synced()
	return endpoints, nil
}

// setRestartFields sets the fields that take effect after a restart: the endpoints, and those of c.
func (h *handovers) setRestartFields(e config.Endpoints, c config.Shim, r *reloader) {
	h.shim.Listener, h.shim.Runtime, h.http.address = h.listener, e.Runtime, e.HTTP
	h.shim.DrainTimeout, h.shim.HandoverTimeout = c.Drain, c.Handover
	if c.StatusSocket != nil {
		r.applier.sandboxes.socket, h.status.path = *c.StatusSocket, *c.StatusSocket
	}
	r.serving.ShimConfiguration = v1alpha1.ShimConfiguration{
		Listen: e.Listen, RuntimeEndpoint: e.Runtime, HTTP: e.HTTP,
		DrainTimeout: c.DrainTimeout, HandoverTimeout: c.HandoverTimeout,
		RefreshConfiguration: v1alpha1.RefreshConfiguration{StatusSocket: c.StatusSocket},
	}
}

// socketPath returns the path of a socket that systemd passed; "" if there is none.
func socketPath(socket *os.File) string {
	if socket == nil {
		return ""
	}
	l, err := net.FileListener(socket)
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}

// listen returns a listener on the socket that systemd passed to the process, or on a new one.
func listen(endpoint string, socket *os.File) (*cri.Listener, error) {
	if socket != nil {
		return cri.Inherit(config.SocketPath(endpoint), socket)
	}
	return cri.Listen(config.SocketPath(endpoint))
}
