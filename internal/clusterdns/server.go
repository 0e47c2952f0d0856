// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// Server is a cluster DNS server. All fields are required, except Reload.
type Server struct {
	Source  *config.Source[config.DNS] // of the configuration, for reloads
	Reload  <-chan os.Signal           // see daemon.Reloader.Signal
	Version string                     // of this binary
	Log     *slog.Logger
}

// Run serves with configuration c until ctx ends, and then returns nil. It returns an error if a
// part of the server cannot start, or a task of the server fails. It validates all of c before it
// opens a socket.
func (s *Server) Run(ctx context.Context, c config.DNS) error {
	z, err := newZone(c)
	if err != nil {
		return err
	}
	registry := daemon.NewRegistry(s.Version)
	server, err := newDNSServer(c, z, registry, s.Log)
	if err != nil {
		return err
	}
	source, err := s.newSource(c, z, registry, func(uid string) {
		// A cluster DNS server and a node cache must not have the same key.
		server.SetReplicas(fmt.Sprintf("cluster DNS %s of cluster %s", c.Domain, uid))
	})
	if err != nil {
		return err
	}
	reloader := &daemon.Reloader[config.DNS]{
		Source: s.Source, Signal: s.Reload, Log: s.Log,
		Apply: func(next config.DNS) (daemon.Task, error) { return server.Apply(next.Forward) },
	}
	if err := reloader.Start(c, registry); err != nil {
		return err
	}
	sockets, err := dnsserver.Listen(ctx, c.Addrs)
	if err != nil {
		return daemon.SocketHint(err, "listen")
	}
	group := daemon.Group{
		Tasks: []daemon.Task{
			func(ctx context.Context) error { return server.Run(ctx, sockets) },
			func(ctx context.Context) error { return s.warnReverse(ctx, c, z) },
			func(ctx context.Context) error {
				<-ctx.Done()
				s.Log.Info("shutting down", "lameduck", c.LameduckTime)
				return nil
			},
		},
		// Names change and queries are forwarded in the lameduck time, too. The background task of
		// the reloader owns the TCP and TLS connections to upstream servers.
		Last: []daemon.Task{source.run, reloader.Run},
	}
	if c.HTTP != "" {
		l, err := daemon.ListenHTTP(ctx, c.HTTP)
		if err != nil {
			sockets.Close()
			return err
		}
		http := daemon.HTTP{Metrics: registry, Log: s.Log, Ready: func() ([]string, error) {
			if ctx.Err() != nil {
				return nil, errStopping
			}
			return source.ready(z)
		}}
		// The queries of the lameduck time count in the last scrape, too.
		group.Last = append(group.Last, func(ctx context.Context) error { return http.Serve(ctx, l) })
	}
	s.Log.Info("serving", "listen", sockets.Addrs(), "clusterDomain", c.Domain.String())
	return group.Run(ctx)
}

// loadInterval is how often warnReverse checks whether the names are loaded.
const loadInterval = time.Second

// warnReverse logs a warning if no reverse networks are configured, when the names are loaded, which
// show the networks.
func (s *Server) warnReverse(ctx context.Context, c config.DNS, z *zone.Zone) error {
	if len(c.Reverse) > 0 {
		return nil
	}
	for tick := time.NewTicker(loadInterval); !z.Snapshot().Loaded(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	now := z.Snapshot()
	s.Log.Warn("reverse names without an address of the cluster are forwarded: set reverseCIDRs to the networks of Services and pods",
		"services", zone.Networks(now.ClusterIPs()), "endpoints", zone.Networks(now.EndpointAddrs()))
	return nil
}

// newDNSServer returns the DNS server of z with the limits and the cache of c. It forwards nothing yet.
func newDNSServer(c config.DNS, z *zone.Zone, register prometheus.Registerer, log *slog.Logger) (*forward.Server, error) {
	return forward.New(dnsserver.Config{
		Zone: z, Domain: c.Domain, TTL: *c.TTL, Lameduck: c.LameduckTime, Autopath: c.Autopath, LocalNames: c.Local,
		Limits: c.ServerLimits,
	}, c.ServerLimits.CacheConfig(), register, log)
}

// errStopping is the reason why a server in its lameduck time is not ready.
var errStopping = errors.New("the server is shutting down")

// newZone returns the zone of the cluster, without names.
func newZone(c config.DNS) (*zone.Zone, error) {
	local, err := localAddrs(c.Addrs)
	if err != nil {
		return nil, err
	}
	return zone.New(zone.Config{Domain: c.Domain, Pods: c.PodMode(), Reverse: c.Reverse, Local: local})
}

// localAddrs returns the addresses at which other machines reach a server with these addresses to
// listen on. For an unspecified or loopback address it returns all addresses of the machine.
func localAddrs(listen []netip.AddrPort) ([]netip.Addr, error) {
	var local []netip.Addr
	for _, l := range listen {
		if addr := l.Addr(); !addr.IsUnspecified() && !addr.IsLoopback() {
			local = append(local, addr.Unmap())
			continue
		}
		all, err := net.InterfaceAddrs()
		if err != nil {
			return nil, fmt.Errorf("reading the machine's addresses: %w", err)
		}
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
				local = append(local, p.Addr().Unmap())
			}
		}
	}
	return local, nil
}

// source is where the objects of a zone come from: manifests, or the API server.
type source struct {
	run    func(context.Context) error // updates the zone until the context ends
	status func() []zonesync.Status    // of the watches of the API server; nil: manifests
}

// newSource returns the source of z. It calls identified with the UID of the cluster as soon as
// that is known, which it never is with manifests.
func (s *Server) newSource(c config.DNS, z *zone.Zone, register prometheus.Registerer, identified func(uid string)) (source, error) {
	if len(c.Manifests) > 0 {
		dirs, err := zonesync.NewDirectories(zonesync.DirectoriesConfig{Zone: z, Domain: c.Domain, Paths: c.Manifests, Logger: s.Log})
		if err != nil {
			return source{}, multierr.Prefix(c.ManifestsOrigin, err)
		}
		return source{run: dirs.Run}, nil
	}
	cfg, err := client.LoadConfig(c.Kubeconfig, "dnsconfigurer-dns/"+s.Version)
	if err != nil {
		return source{}, fmt.Errorf("%w: outside a cluster set --kubeconfig or --manifests", err)
	}
	core, err := client.New(cfg, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		return source{}, err
	}
	discovery, err := client.New(cfg, discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	if err != nil {
		return source{}, err
	}
	api := zonesync.New(zonesync.Config{
		Zone: z, Domain: c.Domain, Core: core, Discovery: discovery, Pods: c.PodMode() == zone.PodsVerified,
		Snapshot: c.Snapshot.Path, SnapshotWait: c.SnapshotWait, SnapshotMaxAge: c.SnapshotMaxAge,
		Identified: identified, Logger: s.Log, Register: register,
	})
	return source{api.Run, api.Status}, nil
}

// ready returns an error if the cluster zone is not loaded, and details about its source. A server
// with stale names is ready: stale names are better than no names.
func (s source) ready(z *zone.Zone) (details []string, err error) {
	switch now := z.Snapshot(); {
	case !now.Loaded():
		err = errors.New("the cluster's names are not loaded yet")
	case now.StaleSince().IsZero():
		details = append(details, "names: loaded")
	default:
		details = append(details, fmt.Sprintf("names: from a snapshot, %v old", time.Since(now.StaleSince()).Round(time.Second)))
	}
	if s.status != nil {
		for _, st := range s.status() {
			details = append(details, st.String())
		}
	}
	return details, err
}
