// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// server is the shim of a node. It starts without a valid configuration, too, unlike with a daemon.Reloader: the node
// needs the shim.
type server struct {
	daemon.Process
	source   *config.Source[Config]
	flagsErr error // why the command line is invalid; not nil: no configuration is valid
	shim     *cri.Shim
	lastGood lastGood
	problems problemList
	drops    *node.Drops

	serving Config // has the fields that take effect after a restart, as the shim serves
	success prometheus.Gauge
	origin  *prometheus.GaugeVec
	current string // origin of the settings
	applied Config // the settings
	saved   bool   // lastGood has applied

	host       *hostresolv.Watcher // nil: there are no settings
	hostCfg    hostresolv.Config   // of host
	hostTask   slot
	hostReport slot // reports an unusable host file as events, through lookups

	lookups     *node.Lookups
	lookupCfg   node.LookupConfig // of lookups
	lookupsTask slot
	clientErr   error // why the last client of the API server could not be created
}

// newServer returns a shim without settings.
func newServer(p daemon.Process, source *config.Source[Config], flagsErr error, last lastGood) *server {
	s := &server{
		Process: p, source: source, flagsErr: flagsErr, lastGood: last, problems: problemList{log: p.Log}, drops: node.NewDrops(p.Metrics),
		shim: &cri.Shim{Metrics: cri.NewMetrics(p.Metrics), Log: p.Log},
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dnsconfigurer_config_last_reload_success",
			Help: "1 if the configuration files were valid when they were last read, 0 if the server keeps a previous configuration.",
		}),
		origin: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dnsconfigurer_config_source",
			Help: "1 for where the settings come from: the files, the last good settings of a previous " +
				"process, or none. With none, every sandbox is passed.",
		}, []string{"source"}),
	}
	p.Metrics.MustRegister(s.success, s.origin)
	return s
}

// Run runs the shim of a node until ctx ends. A node without its shim starts and stops no pods, so only an unusable
// socket or runtime endpoint is an error. Any other problem of the configuration is logged, and until it
// is solved the shim uses its last good settings or passes all sandboxes unchanged. flagsErr is why the command line is
// invalid.
func Run(ctx context.Context, p daemon.Process, source *config.Source[Config], flagsErr error) error {
	state, last := stateDirectory(), lastGood("")
	if state != "" {
		last = lastGood(filepath.Join(state, stateFile))
	}
	s := newServer(p, source, flagsErr, last)
	endpoints, err := s.open(ctx)
	if err != nil {
		return err
	}
	runtime, err := cri.NewClient(endpoints.Runtime)
	if err != nil {
		return err
	}
	defer runtime.Close()
	sandboxes := newAnnouncer(config.SocketPath(s.serving.Agent), runtime, s.Log)
	s.shim.Started, s.shim.Stopped = sandboxes.add, sandboxes.remove
	if state != "" {
		b := Bypass{Runtime: config.SocketPath(endpoints.Runtime), State: state}
		s.problems.set("bypass", "cannot prepare the bypass", b.LinkRuntime())
	}
	notifier, err := daemon.NewNotifier()
	s.problems.set("systemd", "cannot notify systemd", err)
	group := daemon.Group{
		Tasks: []daemon.Task{
			s.shim.Run,
			func(ctx context.Context) error { return notifier.Run(ctx, s.shim.Alive, s.Log) },
			sandboxes.run,
			func(ctx context.Context) error {
				<-ctx.Done()
				s.Log.Info("shutting down", "calls", s.shim.Calls())
				return nil
			},
		},
		Last: []daemon.Task{s.keepSettings}, // calls that are drained look pods up and report
	}
	http := daemon.HTTP{Process: s.Process, Ready: func() ([]string, error) {
		if ctx.Err() != nil {
			return nil, errStopping
		}
		return s.problems.lines(), s.shim.Ready()
	}}
	// The calls that are drained count in the last scrape, too.
	group.Last = append(group.Last, http.KeepServing(endpoints.HTTP, daemon.ListenHTTP))
	s.Log.Info("serving", "listen", endpoints.Listen, "runtime", endpoints.Runtime)
	return group.Run(ctx)
}

// errStopping is the reason why a shim that completes its last calls is not ready.
var errStopping = errors.New("the shim is shutting down")

// open opens the socket and applies the first settings.
func (s *server) open(ctx context.Context) (Endpoints, error) {
	var files settings
	load := func() error {
		files = s.load()
		return nil
	}
	if err := daemon.Interruptible(ctx, load); err != nil {
		return Endpoints{}, err
	}
	last := settings{err: errNoState}
	if files.err != nil {
		last = newSettings(s.lastGood.load())
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
	s.shim.Listener, s.shim.Runtime = listener, endpoints.Runtime
	serving := &s.serving.ShimConfiguration
	serving.Listen, serving.RuntimeEndpoint, serving.HTTP = endpoints.Listen, endpoints.Runtime, endpoints.HTTP
	serving.LogFormat, serving.Agent = others.LogFormat, others.Agent
	s.start(files, last)
	return endpoints, nil
}

// restartFields returns the fields that take effect after a restart. If the files are invalid, the
// endpoints are those that can be read, and the others are the last good ones or the defaults.
func (s *server) restartFields(files, last settings, socket *os.File) (e Endpoints, others Config, err error) {
	switch {
	case files.err == nil:
		return files.Endpoints(), files.Config, nil
	case last.err == nil:
		others = last.Config
	default:
		others = Kind().Defaults()
	}
	e, err = LoadEndpoints(s.source, last.Endpoints(), Endpoints{Listen: socketPath(socket)})
	return e, others, err
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
