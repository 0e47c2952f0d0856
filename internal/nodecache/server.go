// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodecache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodeaddr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// Server is the DNS cache of a node.
type Server struct {
	Source *config.Source[config.NodeCache]
	Reload <-chan os.Signal // see daemon.Reloader.Signal
	Log    *slog.Logger
}

// Run serves with configuration c until ctx ends or a task of the server fails.
func (s *Server) Run(ctx context.Context, c config.NodeCache) error {
	registry := prometheus.NewRegistry()
	server, err := forward.New(dnsserver.Config{Domain: c.Domain, TTL: v1alpha1.DefaultTTL, Autopath: c.Autopath}, registry, s.Log)
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
	if err := ensureInterface(c); err != nil {
		return err
	}
	if err := checkTakeover(ctx, c.Addrs, server.Cluster().Exchange, c.Domain); err != nil {
		return err
	}
	sockets, err := dnsserver.ListenShared(ctx, c.Addrs)
	switch {
	case c.Interface == "" && errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: set --interface, or an address of the node", err)
	case err != nil:
		return daemon.SocketHint(err, "listen")
	}
	group := daemon.Group{
		Tasks: []daemon.Task{func(ctx context.Context) error { return server.Run(ctx, sockets) }},
		Last:  []daemon.Task{reloader.Run}, // its background task has the TCP and TLS connections to upstream servers
	}
	if c.HTTP != "" {
		// The port is shared, too: like queries, probes get to the new instance.
		listen := func(ctx context.Context) (net.Listener, error) { return dnsserver.ListenSharedTCP(ctx, c.HTTP) }
		http := daemon.HTTP{Listen: listen, Metrics: registry, Ready: server.ClusterReady}
		group.Tasks = append(group.Tasks, func(ctx context.Context) error { return http.KeepServing(ctx, s.Log) })
	}
	s.Log.Info("serving", "listen", sockets.Addrs(), "clusterDNS", c.Forward.Cluster)
	return group.Run(ctx)
}

// ensureInterface assigns the addresses to the interface of c, if it has one.
func ensureInterface(c config.NodeCache) error {
	if c.Interface == "" {
		return nil
	}
	var addrs []netip.Addr
	for _, l := range c.Addrs {
		addrs = append(addrs, l.Addr())
	}
	return nodeaddr.Ensure(c.Interface, addrs)
}
