// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
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

// Run serves until ctx ends. A node without its shim starts and stops no pods, so only an
// unusable socket or runtime endpoint is an error. Any other problem of the configuration is
// logged, and until it is solved the shim uses its last good settings or passes all sandboxes
// unchanged.
func (s *Server) Run(ctx context.Context) error {
	registry := daemon.NewRegistry(s.Version)
	s.Writer.Register(registry)
	shim := &cri.Shim{Metrics: cri.NewMetrics(registry), Log: s.Log}
	found := &problems{log: s.Log}
	r := &reloader{
		source: s.Source, flags: s.Flags, signal: s.Reload, lastGood: newLastGood(), problems: found, log: s.Log,
		applier: &applier{shim: shim, metrics: shim.Metrics, drops: events.NewDrops(registry), version: s.Version, log: s.Log},
	}
	r.register(registry)
	endpoints, err := s.open(r, shim)
	if err != nil {
		return err
	}
	if dir := stateDirectory(); dir != "" {
		keep := bypass.Bypass{Runtime: config.SocketPath(endpoints.Runtime), State: dir}
		found.set("bypass", "cannot prepare the bypass", keep.KeepRuntime())
	}
	notifier, err := systemd.NewNotifier()
	found.set("systemd", "cannot notify systemd", err)
	group := daemon.Group{
		Tasks: []daemon.Task{shim.Run, func(ctx context.Context) error { return notifier.Run(ctx, shim.Alive, s.Log) }},
		Last:  []daemon.Task{r.run}, // calls that are drained look pods up and report
	}
	if endpoints.HTTP != "" {
		http := daemon.HTTP{Metrics: registry, Ready: func() ([]string, error) { return found.lines(), shim.Ready() }}
		listen := func(ctx context.Context) (net.Listener, error) { return daemon.ListenHTTP(ctx, endpoints.HTTP) }
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return http.KeepServing(ctx, listen, s.Log) })
	}
	s.Log.Info("serving", "listen", endpoints.Listen, "runtime", endpoints.Runtime)
	return group.Run(ctx)
}

// open opens the socket and applies the first settings.
func (s *Server) open(r *reloader, shim *cri.Shim) (config.Endpoints, error) {
	first, loadErr := r.load()
	var last config.Shim
	lastErr := errNoState
	socket, err := systemd.Socket()
	if err != nil {
		return config.Endpoints{}, err
	}
	endpoints, drain := first.Endpoints(), first
	if loadErr != nil {
		last, lastErr = r.lastGood.load()
		drain = last
		if endpoints, err = config.LoadEndpoints(s.Source, last.Endpoints(), config.Endpoints{Listen: socketPath(socket)}); err != nil {
			return endpoints, err
		}
	}
	if err := cri.CheckEndpoints(config.SocketPath(endpoints.Listen), config.SocketPath(endpoints.Runtime)); err != nil {
		return endpoints, err
	}
	if shim.Listener, err = listen(endpoints.Listen, socket); err != nil {
		return endpoints, err
	}
	shim.Runtime, shim.DrainTimeout = endpoints.Runtime, drain.Drain // 0: the default
	r.serving.ShimConfiguration = v1alpha1.ShimConfiguration{
		Listen: endpoints.Listen, RuntimeEndpoint: endpoints.Runtime, HTTP: endpoints.HTTP,
		DrainTimeout: cmp.Or(drain.DrainTimeout, v1alpha1.DefaultShimDrainTimeout),
	}
	r.start(first, loadErr, last, lastErr)
	return endpoints, nil
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
func listen(endpoint string, socket *os.File) (net.Listener, error) {
	if socket != nil {
		return cri.Inherit(config.SocketPath(endpoint), socket)
	}
	return cri.Listen(config.SocketPath(endpoint))
}
