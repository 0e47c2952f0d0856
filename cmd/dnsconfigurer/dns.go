// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/kube/names"
)

// maxTTL is the longest TTL of the zone's records, in seconds: an answer that is
// older than this is of no use in a cluster.
const maxTTL = 3600

// dnsDrain is how long queries in flight may take when the server ends: as long as
// upstream may.
const dnsDrain = 5 * time.Second

func dnsCommand() *cobra.Command {
	d := dnsFlags{}
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Serve the names of the cluster, and forward everything else",
		Long: `Serve the names of the cluster by Kubernetes DNS-Based Service Discovery 1.1.0, and
forward everything else, through a cache.

The Services and EndpointSlices come from the API server, or without one from
manifests. Until they are known their names get SERVFAIL: nothing is said to be
absent that may exist. Forwarding works from the first query on.`,
		Example: `  dnsconfigurer dns --manifests examples/ --listen 127.0.0.1:1053
  dnsconfigurer dns --kubeconfig ~/.kube/config --listen 127.0.0.1:1053 --upstream 192.0.2.53
  dnsconfigurer dns --listen 0.0.0.0:53 --snapshot /var/lib/dnsconfigurer/dns.snapshot --http :8080
  dnsconfigurer dns --manifests examples/ --stub-domain corp.example=192.0.2.1,192.0.2.2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&d.listen, "listen", []string{"127.0.0.1:53"}, "`ADDR:PORT` to serve on, UDP and TCP; repeatable")
	f.StringSliceVar(&d.manifests, "manifests", nil, "`DIR` of manifests to serve instead of a cluster's objects; watched; repeatable")
	f.StringVar(&d.kubeconfig, "kubeconfig", "", "`FILE` that leads to the API server; empty: that of the cluster we run in")
	f.StringVar(&d.domain, "cluster-domain", "cluster.local", "`DOMAIN` of the cluster")
	f.StringSliceVar(&d.upstream, "upstream", nil, "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME to forward to; repeatable; instead of --resolv-conf")
	f.StringVar(&d.resolvConf, "resolv-conf", kube.DefaultResolvConf, "`PATH` of the file with the servers to forward to; watched; empty: nothing is forwarded")
	f.StringArrayVar(&d.stubs, "stub-domain", nil, "`ZONE=ADDR,..`: a domain that has servers of its own; repeatable")
	f.StringSliceVar(&d.reverse, "reverse-cidr", nil, "`CIDR` of the cluster's addresses: unknown ones have no name; repeatable")
	f.StringVar(&d.pods, "pods", "insecure", "`MODE` of names of pods: disabled, insecure or verified")
	f.Uint32Var(&d.ttl, "ttl", 5, "`SECONDS` for which answers about the cluster may be kept")
	f.StringVar(&d.snapshot, "snapshot", "", "`FILE` that keeps the names for a start without API server; empty: none")
	f.DurationVar(&d.snapshotWait, "snapshot-wait", 2*time.Second, "`TIME` that the API server has to tell the names before the snapshot is read; not waited for when it refuses")
	f.DurationVar(&d.snapshotMaxAge, "snapshot-max-age", 24*time.Hour, "`AGE` from which on a snapshot is of no use")
	f.DurationVar(&d.lameduck, "lameduck", 0, "`TIME` for which queries are still answered after the signal to end")
	f.StringVar(&d.http, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&d.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	cmd.MarkFlagsMutuallyExclusive("manifests", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("manifests", "snapshot")
	return cmd
}

type dnsFlags struct {
	listen, manifests, upstream, stubs, reverse []string

	kubeconfig, domain, resolvConf, pods, snapshot, http, logFormat string

	ttl uint32

	lameduck, snapshotWait, snapshotMaxAge time.Duration
}

func (d *dnsFlags) run(cmd *cobra.Command) error {
	log, err := newLogger(cmd.ErrOrStderr(), d.logFormat)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	z, domain, addrs, err := d.zone()
	if err != nil {
		return usageError{err}
	}
	registry := prometheus.NewRegistry()
	config, tasks, err := d.sources(log)
	if err != nil {
		return err
	}
	config.Zone, config.Domain, config.TTL, config.Lameduck, config.Drain = z, domain, d.ttl, d.lameduck, dnsDrain
	config.Logger, config.Register = log, registry
	if config.Cache, err = cache.New(cache.Config{}); err != nil {
		return err
	}
	data, err := d.data(z, domain, registry, log)
	if err != nil {
		return err
	}
	server, err := dnsserver.New(config)
	if err != nil {
		return err
	}
	sockets, err := dnsserver.Listen(ctx, addrs)
	if err != nil {
		return err
	}
	tasks = append(tasks, data.run, func(ctx context.Context) error { return server.Run(ctx, sockets) })
	if d.http != "" {
		tasks = append(tasks, func(ctx context.Context) error {
			return serveHTTP(ctx, d.http, registry, func() ([]string, error) { return data.ready(z) })
		})
	}
	log.Info("serving", "listen", sockets.Addrs(), "clusterDomain", domain)
	return together(ctx, tasks)
}

// zone returns an empty zone by the flags, its domain, and where to listen.
func (d *dnsFlags) zone() (*zone.Zone, fqdn.Name, []netip.AddrPort, error) {
	config := zone.Config{TTL: d.ttl}
	fail := func(flag, value string, err error) (*zone.Zone, fqdn.Name, []netip.AddrPort, error) {
		return nil, "", nil, fmt.Errorf("--%s %q: %w", flag, value, err)
	}
	var err error
	if config.Domain, err = fqdn.ParseName(d.domain); err != nil {
		return fail("cluster-domain", d.domain, err)
	}
	if d.ttl > maxTTL {
		return nil, "", nil, fmt.Errorf("--ttl %d: at most %d seconds", d.ttl, maxTTL)
	}
	modes := map[string]zone.PodMode{"disabled": zone.PodsDisabled, "insecure": zone.PodsInsecure, "verified": zone.PodsVerified}
	mode, ok := modes[d.pods]
	if !ok {
		return fail("pods", d.pods, errors.New("want disabled, insecure or verified"))
	}
	config.Pods = mode
	for _, s := range d.reverse {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return fail("reverse-cidr", s, err)
		}
		config.Reverse = append(config.Reverse, p.Masked())
	}
	var addrs []netip.AddrPort
	for _, s := range d.listen {
		addr, err := netip.ParseAddrPort(s)
		if err != nil {
			return fail("listen", s, err)
		}
		addrs = append(addrs, addr)
	}
	if config.Local, err = reachedAt(addrs); err != nil {
		return nil, "", nil, err
	}
	z, err := zone.New(config)
	return z, config.Domain, addrs, err
}

// reachedAt returns the addresses by which others know a server that listens there:
// those themselves, or all of the machine's for one that names no outside address.
func reachedAt(listen []netip.AddrPort) ([]netip.Addr, error) {
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

// sources returns the servers to forward to, and what must run for them.
func (d *dnsFlags) sources(log *slog.Logger) (config dnsserver.Config, tasks []func(context.Context) error, err error) {
	loop := &upstream.Loop{}
	config.Returned = loop.Returned
	var servers []upstream.Server
	for _, s := range d.upstream {
		server, err := upstream.ParseServer(s)
		if err != nil {
			return config, nil, usageError{fmt.Errorf("--upstream %q: %w", s, err)}
		}
		servers = append(servers, server)
	}
	if len(servers) > 0 || d.resolvConf != "" {
		up, err := upstream.New(upstream.Config{Servers: servers, Loop: loop, Logger: log})
		if err != nil {
			return config, nil, err
		}
		config.Upstream = up.Exchange
		tasks = append(tasks, up.Run)
		if len(servers) == 0 {
			w, err := hostresolv.New(hostresolv.Config{Path: d.resolvConf, Logger: log})
			if err != nil {
				return config, nil, err
			}
			tasks = append(tasks, w.Run, func(ctx context.Context) error { return followHost(ctx, w, up, log) })
		}
	}
	for _, s := range d.stubs {
		stub, err := upstream.ParseStubDomain(s)
		if err != nil {
			return config, nil, usageError{fmt.Errorf("--stub-domain %q: %w", s, err)}
		}
		name, err := fqdn.ParseName(stub.Zone)
		if err != nil {
			return config, nil, usageError{fmt.Errorf("--stub-domain %q: %w", s, err)}
		}
		c, err := upstream.New(upstream.Config{Servers: stub.Servers, Loop: loop, LoopZone: stub.Zone, Logger: log})
		if err != nil {
			return config, nil, err
		}
		config.Stubs = append(config.Stubs, dnsserver.Stub{Zone: name, Exchange: c.Exchange})
		tasks = append(tasks, c.Run)
	}
	return config, tasks, nil
}

// followHost keeps up's servers those of the host's file.
func followHost(ctx context.Context, w *hostresolv.Watcher, up *upstream.Client, log *slog.Logger) error {
	for {
		snapshot, changed := w.Current()
		var servers []upstream.Server
		for _, entry := range snapshot.File.Nameservers {
			server, err := upstream.ParseServer(entry.Text)
			if err != nil {
				log.Warn("a server is left out", "file", snapshot.Path, "line", entry.Line, "nameserver", entry.Text, "reason", err)
				continue
			}
			servers = append(servers, server)
		}
		up.SetServers(servers)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// data returns what fills the zone, from manifests or from the API server.
func (d *dnsFlags) data(z *zone.Zone, domain fqdn.Name, metrics prometheus.Registerer, log *slog.Logger) (source, error) {
	if d.snapshotWait <= 0 {
		return source{}, usageError{fmt.Errorf("--snapshot-wait %v: want a time above 0", d.snapshotWait)}
	}
	if d.snapshotMaxAge <= 0 {
		return source{}, usageError{fmt.Errorf("--snapshot-max-age %v: want a time above 0", d.snapshotMaxAge)}
	}
	if len(d.manifests) > 0 {
		dirs, err := names.NewDirectories(names.DirectoriesConfig{Zone: z, Domain: domain, Paths: d.manifests, Logger: log})
		if err != nil {
			return source{}, err
		}
		return source{run: dirs.Run}, nil
	}
	c, err := client.Config(d.kubeconfig)
	if err != nil {
		return source{}, fmt.Errorf("%w; outside a cluster give --kubeconfig or --manifests", err)
	}
	c.UserAgent = "dnsconfigurer-dns/" + version()
	core, err := client.New(c, corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ServiceList{}, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Pod{}, &corev1.PodList{})
	if err != nil {
		return source{}, err
	}
	discovery, err := client.New(c, discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{})
	if err != nil {
		return source{}, err
	}
	api, err := names.New(names.Config{
		Zone: z, Domain: domain, Core: core, Discovery: discovery, Pods: d.pods == "verified",
		Snapshot: d.snapshot, SnapshotWait: d.snapshotWait, SnapshotMaxAge: d.snapshotMaxAge, Logger: log, Register: metrics,
	})
	if err != nil {
		return source{}, err
	}
	return source{api.Run, api.Status}, nil
}
