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
	Source  *config.Source[config.Shim]
	Flags   error            // what is wrong with the command line: all sandboxes are passed
	Reload  <-chan os.Signal // reloads at once
	Version string           // of this binary
	Log     *slog.Logger
	Writer  *daemon.LogWriter // writes Log
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
	found := &problems{log: s.Log}
	h := &handovers{shim: shim, http: &httpSocket{}, status: &statusSocket{}, log: s.Log, previous: previous,
		done: make(chan struct{}), isMain: make(chan struct{})}
	running := newSandboxes(sandboxdns.New(sandboxdns.NewShimMetrics(registry), s.Log), s.Log)
	running.applier.RegisterDrift(registry)
	shim.Handover = h.handOver
	r := &reloader{
		source: s.Source, flags: s.Flags, signal: s.Reload, lastGood: newLastGood(), problems: found, handedOver: h.done, log: s.Log,
		applier: &applier{shim: shim, metrics: shim.Metrics, pods: decision.NewMetrics(registry, "dnsconfigurer_shim_"),
			running: running, version: s.Version, log: s.Log},
	}
	r.register(registry)
	endpoints, err := s.open(r, h)
	if err != nil {
		return err
	}
	if dir := stateDirectory(); dir != "" {
		keep := bypass.Bypass{Runtime: config.SocketPath(endpoints.Runtime), State: dir}
		found.set("bypass", "cannot prepare the bypass", keep.KeepRuntime())
	}
	h.register(registry)
	h.notifier, err = systemd.NewNotifier()
	found.set("systemd", "cannot notify systemd", err)
	group := daemon.Group{
		Tasks: []daemon.Task{h.serve, h.logShutdown, h.runMain,
			h.asMain(func(ctx context.Context) error { return running.run(ctx, endpoints.Runtime) })},
		Last: []daemon.Task{r.run}, // calls that are drained look pods up and report
	}
	if endpoints.HTTP != "" {
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) {
			if ctx.Err() != nil {
				return nil, errStopping
			}
			return found.lines(), shim.Ready()
		}}
		// The calls that are drained count in the last scrape, too.
		group.Last = append(group.Last, h.untilHandover(func(ctx context.Context) error { return http.KeepServing(ctx, h.http.listen) }))
	}
	if running.socket != "" {
		status := s.newStatusServer(running.applier)
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
func (s *Server) open(r *reloader, h *handovers) (config.Endpoints, error) {
	first, loadErr := r.load()
	if h.previous != nil {
		if loadErr != nil {
			return config.Endpoints{}, fmt.Errorf("invalid configuration: %w", loadErr)
		}
		return s.takeOver(r, h, first)
	}
	var last config.Shim
	lastErr := errNoState
	socket, err := systemd.Socket()
	if err != nil {
		return config.Endpoints{}, err
	}
	endpoints, timeouts := first.Endpoints(), first
	if loadErr != nil {
		if last, lastErr = r.lastGood.load(); lastErr == nil {
			timeouts = last
		} else {
			timeouts = config.ShimKind().Defaults()
		}
		if endpoints, err = config.LoadEndpoints(s.Source, last.Endpoints(), config.Endpoints{Listen: socketPath(socket)}); err != nil {
			return endpoints, err
		}
	}
	if err := cri.CheckEndpoints(config.SocketPath(endpoints.Listen), config.SocketPath(endpoints.Runtime)); err != nil {
		return endpoints, err
	}
	if h.listener, err = listen(endpoints.Listen, socket); err != nil {
		return endpoints, err
	}
	h.use(endpoints, timeouts, r)
	r.start(first, loadErr, last, lastErr)
	return endpoints, nil
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
	h.use(endpoints, c, r)
	if err := r.applyFiles(c); err != nil {
		return endpoints, err
	}
	h.warm = r.applier.lookups.Synced()
	return endpoints, nil
}

// use sets what does not change while the shim runs.
func (h *handovers) use(e config.Endpoints, timeouts config.Shim, r *reloader) {
	h.shim.Listener, h.shim.Runtime, h.http.address = h.listener, e.Runtime, e.HTTP
	h.shim.DrainTimeout, h.shim.HandoverTimeout = timeouts.Drain, timeouts.Handover
	if timeouts.StatusSocket != nil {
		r.applier.running.socket, h.status.path = *timeouts.StatusSocket, *timeouts.StatusSocket
	}
	r.serving.ShimConfiguration = v1alpha1.ShimConfiguration{
		Listen: e.Listen, RuntimeEndpoint: e.Runtime, HTTP: e.HTTP,
		DrainTimeout: timeouts.DrainTimeout, HandoverTimeout: timeouts.HandoverTimeout,
		RefreshConfiguration: v1alpha1.RefreshConfiguration{StatusSocket: timeouts.StatusSocket},
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
