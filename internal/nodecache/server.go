// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// Server is the DNS cache of a node. All fields are required, except Reload.
type Server struct {
	Source  *config.Source[config.NodeCache] // of the configuration, for reloads
	Reload  <-chan os.Signal                 // see daemon.Reloader.Signal
	Version string                           // of this binary
	Log     *slog.Logger
}

// Run serves with configuration c until ctx ends, and then returns nil. It returns an error if a
// part of the server cannot start, or a task of the server fails. It takes over the addresses from
// a previous instance only if it reaches the cluster DNS itself.
func (s *Server) Run(ctx context.Context, c config.NodeCache) error {
	registry := daemon.NewRegistry(s.Version)
	server, err := newDNSServer(c, registry, s.Log)
	if err != nil {
		return err
	}
	reloader := &daemon.Reloader[config.NodeCache]{
		Source: s.Source, Signal: s.Reload, Log: s.Log,
		Apply: func(next config.NodeCache) (daemon.Task, error) { return server.Apply(next.Forward) },
	}
	if err := reloader.Start(c, registry); err != nil {
		return err
	}
	cluster := &clusterCheck{domain: c.Domain, exchange: func(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
		return server.Cluster().Exchange(ctx, query) // a reload replaces the client
	}}
	addrs, err := assignAddresses(c, s.Log)
	if err != nil {
		return err
	}
	if err := checkTakeover(ctx, addrs.listen, cluster); err != nil {
		return err
	}
	sockets, err := addrs.open(ctx)
	if err != nil {
		return err
	}
	guard := newGuard(addrs.iface, sockets.Addrs(), registry, s.Log)
	if err := guard.installRules(c.Notrack); err != nil {
		sockets.Close()
		return err
	}
	group := daemon.Group{
		Tasks: []daemon.Task{func(ctx context.Context) error { return server.Run(ctx, sockets) }, guard.run, cluster.run, s.logShutdown},
		Last:  []daemon.Task{reloader.Run}, // its background task owns the TCP and TLS connections to upstream servers
	}
	if c.HTTP != "" {
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) {
			details, err := guard.ready()
			details = slices.Concat(addrs.omitted, details, server.ClusterStatus())
			return details, errors.Join(err, cluster.ready())
		}}
		// The port is shared, too: like queries, probes get to the new instance. So it is closed at once
		// when this one ends.
		listen := func(ctx context.Context) (net.Listener, error) { return dnsserver.ListenSharedTCP(ctx, c.HTTP) }
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return http.KeepServing(ctx, listen) })
	}
	s.Log.Info("serving", "listen", sockets.Addrs(), "clusterDNS", c.Forward.Cluster)
	return group.Run(ctx)
}

// newDNSServer returns the DNS server with the limits and the cache of c. It forwards nothing yet.
func newDNSServer(c config.NodeCache, register prometheus.Registerer, log *slog.Logger) (*forward.Server, error) {
	return forward.New(dnsserver.Config{
		Domain: c.Domain, TTL: v1alpha1.DefaultTTL, Autopath: c.Autopath, LocalNames: c.Local, AnswerProbe: answerProbe,
		Limits: c.ServerLimits,
	}, c.ServerLimits.CacheConfig(), register, log)
}

// logShutdown logs that ctx has ended.
func (s *Server) logShutdown(ctx context.Context) error {
	<-ctx.Done()
	s.Log.Info("shutting down")
	return nil
}
