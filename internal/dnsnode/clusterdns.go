// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// RunClusterDNS runs a cluster DNS server with configuration c until ctx ends, and then returns nil. It
// validates all of c before it opens a socket.
func RunClusterDNS(ctx context.Context, p daemon.Process, source *config.Source[ClusterDNSConfig], c ClusterDNSConfig) error {
	local, err := localAddrs(c.Addrs)
	if err != nil {
		return err
	}
	z, err := zone.New(zone.Config{Domain: c.Domain, Pods: podModes[c.Pods], Reverse: c.Reverse, Local: local, External: c.External})
	if err != nil {
		return err
	}
	server, err := newServer(dnsserver.Config{
		Zone: z, Domain: c.Domain, TTL: *c.TTL, Lameduck: config.Duration(c.Lameduck), Autopath: c.Autopath,
		LocalNames: true, Chaos: c.Chaos, DNS64Prefix: c.DNS64Prefix, Limits: c.ServerLimits, Statistics: c.Statistics,
	}, p.Metrics, p.Log)
	if err != nil {
		return err
	}
	names, err := newNames(c, z, p, func(uid string) {
		// A cluster DNS server and a node cache must not have the same key.
		server.client.Loop.SetKey(fmt.Sprintf("cluster DNS %s of cluster %s", c.Domain, uid))
	})
	if err != nil {
		return err
	}
	open := func(ctx context.Context, group *daemon.Group) (*dnsserver.Sockets, error) {
		sockets, err := dnsserver.Listen(ctx, c.Addrs)
		if err != nil {
			return nil, daemon.SocketHint(err, "listen")
		}
		group.Last = append(group.Last, names.run) // names change in the lameduck time, too
		if len(c.Reverse) == 0 {
			group.Tasks = append(group.Tasks, func(ctx context.Context) error { return names.warnReverse(ctx, p.Log) })
		}
		if c.HTTP == "" {
			return sockets, nil
		}
		l, err := daemon.ListenHTTP(ctx, c.HTTP)
		if err != nil {
			sockets.Close()
			return nil, err
		}
		http := daemon.HTTP{Process: p, Clients: func() any { return server.Clients() }, Ready: func() ([]string, error) {
			if ctx.Err() != nil {
				return nil, errors.New("the server is shutting down") // in its lameduck time
			}
			return names.ready()
		}}
		// The queries of the lameduck time count in the last scrape, too.
		group.Last = append(group.Last, func(ctx context.Context) error { return http.Serve(ctx, l) })
		return sockets, nil
	}
	return run(ctx, p, source, c, server, open, func(next ClusterDNSConfig) resolver { return next.resolver })
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

// names updates a zone with the objects of manifests or of the API server.
type names struct {
	zone   *zone.Zone
	run    daemon.Task
	status func() []cluster.Status // of the watches of the API server; nil: manifests
}

// newNames returns the names of z. It calls identified with the UID of the cluster as soon as
// that is known, which it never is with manifests.
func newNames(
	c ClusterDNSConfig, z *zone.Zone, p daemon.Process, identified func(uid string),
) (*names, error) {
	if len(c.Manifests) > 0 {
		dirs, err := cluster.NewDirectories(cluster.DirectoriesConfig{Zone: z, Domain: c.Domain, Paths: c.Manifests, Logger: p.Log})
		if err != nil {
			return nil, excerpt.Prefix(c.manifestsOrigin, err)
		}
		return &names{zone: z, run: dirs.Run}, nil
	}
	cfg, err := cluster.LoadConfig(c.Kubeconfig, "dnsconfigurer-dns/"+p.Version)
	if err != nil {
		return nil, fmt.Errorf("%w: outside a cluster set --kubeconfig or --manifests", err)
	}
	core, err := cluster.NewClient(cfg, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		return nil, err
	}
	discovery, err := cluster.NewClient(cfg, discoveryv1.SchemeGroupVersion, &cluster.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	if err != nil {
		return nil, err
	}
	api := cluster.NewSyncer(cluster.SyncerConfig{
		Zone: z, Domain: c.Domain, Core: core, Discovery: discovery, Pods: podModes[c.Pods] == zone.PodsVerified,
		Snapshot:   c.Snapshot,
		Identified: identified, Logger: p.Log, Register: p.Metrics,
	})
	return &names{z, api.Run, api.Status}, nil
}

// ready returns an error if the cluster zone is not loaded, and details about its source. A server
// with stale names is ready: stale names are better than no names.
func (n *names) ready() (details []string, err error) {
	switch now := n.zone.Snapshot(); {
	case !now.Loaded():
		err = errors.New("the cluster's names are not loaded yet")
	case now.StaleSince().IsZero():
		details = append(details, "names: loaded")
	default:
		details = append(details, fmt.Sprintf("names: from a snapshot, %v old", time.Since(now.StaleSince()).Round(time.Second)))
	}
	if n.status != nil {
		for _, st := range n.status() {
			details = append(details, st.String())
		}
	}
	return details, err
}

// loadInterval is how often warnReverse checks whether the names are loaded.
const loadInterval = time.Second

// warnReverse logs that no reverse networks are configured, when the names are loaded, which show the
// networks.
func (n *names) warnReverse(ctx context.Context, log *slog.Logger) error {
	for tick := time.NewTicker(loadInterval); !n.zone.Snapshot().Loaded(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	services, endpoints := n.zone.Snapshot().Networks()
	log.Warn("reverse names without an address of the cluster are forwarded: set reverseCIDRs to the networks of Services and pods",
		"services", services, "endpoints", endpoints)
	return nil
}
