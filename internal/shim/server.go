// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

// Server is the shim of a node.
type Server struct {
	daemon.Process
	Source   *config.Source[Config]
	FlagsErr error // why the command line is invalid: all sandboxes are passed
}

// Run serves until ctx ends. A node without its shim starts and stops no pods, so only an unusable
// socket or runtime endpoint is an error. Any other problem of the configuration is logged, and until it
// is solved the shim uses its last good settings or passes all sandboxes unchanged.
func (s *Server) Run(ctx context.Context) error {
	shim := &cri.Shim{Metrics: cri.NewMetrics(s.Metrics), Log: s.Log}
	problems := &problemList{log: s.Log}
	r := &reloader{
		source: s.Source, flags: s.FlagsErr, signal: s.Reload, lastGood: newLastGood(), problems: problems, log: s.Log,
		applier: &applier{shim: shim, metrics: shim.Metrics, drops: node.NewDrops(s.Metrics),
			version: s.Version, log: s.Log},
	}
	r.register(s.Metrics)
	endpoints, err := s.open(ctx, r)
	if err != nil {
		return err
	}
	runtime, err := cri.NewClient(endpoints.Runtime)
	if err != nil {
		return err
	}
	defer runtime.Close()
	sandboxes := newAnnouncer(r.agent, runtime, s.Log)
	shim.Started, shim.Stopped = sandboxes.add, sandboxes.remove
	if dir := stateDirectory(); dir != "" {
		b := Bypass{Runtime: config.SocketPath(endpoints.Runtime), State: dir}
		problems.set("bypass", "cannot prepare the bypass", b.LinkRuntime())
	}
	notifier, err := daemon.NewNotifier()
	problems.set("systemd", "cannot notify systemd", err)
	group := daemon.Group{
		Tasks: []daemon.Task{
			shim.Run,
			func(ctx context.Context) error { return notifier.Run(ctx, shim.Alive, s.Log) },
			sandboxes.run,
			func(ctx context.Context) error {
				<-ctx.Done()
				s.Log.Info("shutting down", "calls", shim.Calls())
				return nil
			},
		},
		Last: []daemon.Task{r.run}, // calls that are drained look pods up and report
	}
	http := daemon.HTTP{Process: s.Process, Ready: func() ([]string, error) {
		if ctx.Err() != nil {
			return nil, errStopping
		}
		return problems.lines(), shim.Ready()
	}}
	// The calls that are drained count in the last scrape, too.
	group.Last = append(group.Last, http.KeepServing(endpoints.HTTP, daemon.ListenHTTP))
	s.Log.Info("serving", "listen", endpoints.Listen, "runtime", endpoints.Runtime)
	return group.Run(ctx)
}

// errStopping is the reason why a shim that completes its last calls is not ready.
var errStopping = errors.New("the shim is shutting down")

// open opens the socket and applies the first settings.
func (s *Server) open(ctx context.Context, r *reloader) (Endpoints, error) {
	var files settings
	load := func() error {
		files = r.load()
		return nil
	}
	if err := daemon.Interruptible(ctx, load); err != nil {
		return Endpoints{}, err
	}
	last := settings{err: errNoState}
	if files.err != nil {
		last = newSettings(r.lastGood.load())
	}
	socket, err := daemon.Socket()
	if err != nil {
		return Endpoints{}, err
	}
	endpoints, others, err := s.restartFields(files, last, socket)
	if err != nil {
		return endpoints, err
	}
	if err := cri.CheckEndpoints(config.SocketPath(endpoints.Listen), config.SocketPath(endpoints.Runtime)); err != nil {
		return endpoints, err
	}
	var listener *cri.Listener
	if path := config.SocketPath(endpoints.Listen); socket != nil { // that systemd passed to the process
		listener, err = cri.Inherit(path, socket)
	} else {
		listener, err = cri.Listen(path)
	}
	if err != nil {
		return endpoints, err
	}
	r.applier.shim.Listener = listener
	r.setRestartFields(endpoints, others)
	r.start(files, last)
	return endpoints, nil
}

// restartFields returns the fields that take effect after a restart. If the files are invalid, the
// endpoints are those that can be read, and the others are the last good ones or the defaults.
func (s *Server) restartFields(files, last settings, socket *os.File) (e Endpoints, others Config, err error) {
	switch {
	case files.err == nil:
		return files.Endpoints(), files.Config, nil
	case last.err == nil:
		others = last.Config
	default:
		others = Kind().Defaults()
	}
	e, err = LoadEndpoints(s.Source, last.Endpoints(), Endpoints{Listen: socketPath(socket)})
	return e, others, err
}

// setRestartFields sets the fields that take effect after a restart: the endpoints, and fields of c.
func (r *reloader) setRestartFields(e Endpoints, c Config) {
	r.applier.shim.Runtime = e.Runtime
	r.agent = config.SocketPath(c.Agent)
	s := &r.serving.ShimConfiguration
	s.Listen, s.RuntimeEndpoint, s.HTTP, s.LogFormat = e.Listen, e.Runtime, e.HTTP, c.LogFormat
	s.Agent = c.Agent
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
