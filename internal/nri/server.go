// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/containerd/nri/pkg/stub"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const (
	pluginName  = "dnsconfigurer"
	pluginIndex = "90" // after plugins that mount another resolv.conf

	// configureTimeout ends the process: package stub hangs for ever if the connection breaks
	// between the reply to its registration and the call of Configure
	// (https://github.com/containerd/nri/issues/298). The stub gives up a registration after
	// 5 seconds.
	configureTimeout = 15 * time.Second

	reconnectPause = 500 * time.Millisecond
)

// Server is the relay of a node. All fields are required, except HTTP.
type Server struct {
	daemon.Process
	Socket string // path of the socket of NRI
	Agent  string // path of the agent's socket
	HTTP   string // address of metrics and health; "": none

	plugin *plugin
}

// CheckFlags returns an error that names an invalid flag of the command nri.
func (s *Server) CheckFlags() error {
	for _, f := range []struct{ flag, path string }{{"socket", s.Socket}, {"agent", s.Agent}} {
		if !filepath.IsAbs(f.path) {
			return usage.Errorf("--%s: %q is not an absolute path", f.flag, f.path)
		}
	}
	if err := daemon.CheckAddress(s.HTTP); err != nil {
		return usage.Errorf("--http: %w", err)
	}
	return nil
}

// errStuck ends the process, see configureTimeout.
var errStuck = errors.New("the container runtime has not configured the plugin: exiting to connect again")

// Run passes events until ctx ends. It reconnects to the runtime and to the agent. It returns an
// error only if a connection to the runtime hangs: it ends with the process.
func (s *Server) Run(ctx context.Context) error {
	link := &podfile.Link{Socket: s.Agent, Log: s.Log}
	s.plugin = &plugin{link: link, log: s.Log, configured: make(chan struct{}, 1), sandboxes: map[string]*sandbox{}}
	s.plugin.metrics = newMetrics(s.Metrics, s.plugin.waitsFor)
	link.Replay = s.plugin.sendAll
	http := daemon.HTTP{Process: s.Process, Ready: func() ([]string, error) { return nil, s.ready() }}
	return daemon.RunAll(ctx, s.runPlugin, link.Run, http.KeepServing(s.HTTP, daemon.ListenHTTP))
}

// ready returns nil if the runtime has announced its sandboxes and there is an agent.
func (s *Server) ready() error {
	switch reason := s.plugin.waitsFor(); {
	case reason != "":
		return fmt.Errorf("waiting to register with the container runtime: %s", reason)
	case !s.plugin.synchronized.Load():
		return errors.New("the container runtime has not announced its sandboxes")
	case !s.plugin.link.IsConnected():
		return errors.New("the agent is not connected")
	}
	return nil
}

// runPlugin keeps the plugin registered with the runtime until ctx ends.
func (s *Server) runPlugin(ctx context.Context) error {
	logged := ""
	for ctx.Err() == nil {
		s.plugin.awaitStops(ctx, s.plugin.link.Ask)
		if ctx.Err() != nil {
			return nil
		}
		err := s.connect(ctx)
		s.plugin.lose()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errStuck):
			return err
		case err != nil && err.Error() != logged:
			logged = err.Error()
			s.Log.Warn("not connected to the container runtime, retrying", "socket", s.Socket, "error", err)
		}
		daemon.Sleep(ctx, reconnectPause)
	}
	return nil
}

// connect registers the plugin and returns when the connection and the context of its calls have
// ended.
func (s *Server) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := s.plugin
	select {
	case <-p.configured: // of a connection that ended at once
	default:
	}
	options := []stub.Option{stub.WithSocketPath(s.Socket), stub.WithOnClose(func() {}), stub.WithLogger(stubLog{s.Log})}
	if !startedByRuntime() {
		options = append(options, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex))
	}
	connection, err := stub.New(p, options...)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- connection.Run(ctx) }() // may not return, see configureTimeout
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	case <-time.After(configureTimeout):
		return errStuck
	case <-p.configured:
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// stubLog is the log of package stub.
type stubLog struct{ log *slog.Logger }

func (l stubLog) Debugf(context.Context, string, ...any) {}
func (l stubLog) Infof(context.Context, string, ...any)  {}
func (l stubLog) Warnf(_ context.Context, format string, args ...any) {
	l.log.Warn("warning of the NRI library", "message", fmt.Sprintf(format, args...))
}
func (l stubLog) Errorf(_ context.Context, format string, args ...any) {
	l.log.Error("error of the NRI library", "message", fmt.Sprintf(format, args...))
}

// metrics counts what the relay passes. The label values are the constants of podfile.Result.
type metrics struct {
	containers *prometheus.CounterVec
	panics     prometheus.Counter
	waiting    prometheus.GaugeFunc
}

// newMetrics returns metrics, registered with r. waitsFor returns why the relay waits.
func newMetrics(r prometheus.Registerer, waitsFor func() string) *metrics {
	register := promauto.With(r)
	return &metrics{
		containers: daemon.NewCounterVec(r, "dnsconfigurer_nri_containers_total",
			"Containers about to be created, by whether the agent has replied in time.", "result", podfile.Results()...),
		panics: register.NewCounter(prometheus.CounterOpts{
			Name: "dnsconfigurer_nri_panics_total",
			Help: "Panics in calls of the container runtime.",
		}),
		waiting: register.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dnsconfigurer_nri_waiting",
			Help: "1 while the relay waits for the end of stops, or for the agent, before it registers with the container runtime.",
		}, func() float64 {
			if waitsFor() == "" {
				return 0
			}
			return 1
		}),
	}
}
