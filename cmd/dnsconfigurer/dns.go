// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/zonesync"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

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
absent that may exist. Forwarding works from the first query on.

A flag wins over the file of --config. A changed file is read again, at once on
SIGHUP. One with an error changes nothing.`,
		Example: `  dnsconfigurer dns --manifests examples/ --listen 127.0.0.1:1053
  dnsconfigurer dns --kubeconfig ~/.kube/config --listen 127.0.0.1:1053 --upstream 192.0.2.53
  dnsconfigurer dns --config /etc/dnsconfigurer/dns.yaml
  dnsconfigurer dns --listen 0.0.0.0:53 --snapshot /var/lib/dnsconfigurer/dns.snapshot --http :8080
  dnsconfigurer dns --manifests examples/ --stub-domain corp.example=192.0.2.1,192.0.2.2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	d.register(cmd.Flags())
	return cmd
}

// dnsFlags are what a command line says about a DNS server.
type dnsFlags struct {
	config     string
	given      v1alpha1.DNSConfiguration
	resolvConf string
	ttl        uint32
	stubs      []string

	files config.Files // that were read
}

func (d *dnsFlags) register(f *pflag.FlagSet) {
	f.StringVar(&d.config, "config", "", "`FILE` with a DNSConfiguration")
	f.StringSliceVar(&d.given.Listen, "listen", []string{v1alpha1.DefaultDNSListen}, "`ADDR:PORT` to serve on, UDP and TCP; repeatable")
	f.StringSliceVar(&d.given.Manifests, "manifests", nil, "`DIR` of manifests to serve instead of a cluster's objects; watched; repeatable")
	f.StringVar(&d.given.Kubeconfig, "kubeconfig", "", "`FILE` that leads to the API server; empty: that of the cluster we run in")
	f.StringVar(&d.given.ClusterDomain, "cluster-domain", v1alpha1.DefaultClusterDomain, "`DOMAIN` of the cluster")
	f.StringSliceVar(&d.given.Upstreams, "upstream", nil, "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME to forward to; repeatable; instead of --resolv-conf")
	f.StringVar(&d.resolvConf, "resolv-conf", v1alpha1.DefaultUpstreamConf, "`PATH` of the file with the servers to forward to; watched; empty: nothing is forwarded")
	f.StringArrayVar(&d.stubs, "stub-domain", nil, "`ZONE=ADDR,..`: a domain that has servers of its own; repeatable")
	f.StringSliceVar(&d.given.HostSuffixes, "host-suffix", nil, "`DOMAIN` that the nodes search; repeatable")
	f.StringVar(&d.given.AutopathSuffix, "autopath-suffix", v1alpha1.DefaultAutopathSuffix, "`DOMAIN` below which names are looked for along a search list")
	f.Uint16Var(&d.given.EDNSOption, "edns-option", v1alpha1.DefaultEDNSOption, "`CODE` by which node caches send the list, 65001 to 65534")
	f.StringSliceVar(&d.given.AutopathNetworks, "autopath-network", nil, "`CIDR` of clients that may send one; repeatable; empty: loopback, link-local, private and shared addresses")
	f.StringSliceVar(&d.given.ReverseCIDRs, "reverse-cidr", nil, "`CIDR` of the cluster's addresses: unknown ones have no name; repeatable")
	f.StringVar(&d.given.Pods, "pods", v1alpha1.DefaultPods, "`MODE` of names of pods: disabled, insecure or verified")
	f.Uint32Var(&d.ttl, "ttl", v1alpha1.DefaultTTL, "`SECONDS` for which answers about the cluster may be kept")
	f.StringVar(&d.given.Snapshot.Path, "snapshot", "", "`FILE` that keeps the names for a start without API server; empty: none")
	f.StringVar(&d.given.Snapshot.Wait, "snapshot-wait", "2s", "`TIME` for which the API server may be silent before --snapshot is used")
	f.StringVar(&d.given.Snapshot.MaxAge, "snapshot-max-age", "24h", "`TIME` from which on --snapshot is too old")
	f.StringVar(&d.given.Lameduck, "lameduck", "0s", "`TIME` for which queries are still answered after the signal to end")
	f.StringVar(&d.given.HTTP, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&d.given.LogFormat, "log-format", v1alpha1.DefaultLogFormat, "`FORMAT` of the log: text or json")
}

// dnsFlagNames are the flags of fields.
var dnsFlagNames = fieldNames{
	"listen": "listen", "manifests": "manifests", "kubeconfig": "kubeconfig", "clusterDomain": "cluster-domain", "upstreams": "upstream",
	"resolvConf": "resolv-conf", "stubDomains": "stub-domain", "hostSuffixes": "host-suffix", "autopathSuffix": "autopath-suffix", "ednsOption": "edns-option",
	"autopathNetworks": "autopath-network", "reverseCIDRs": "reverse-cidr", "pods": "pods", "ttl": "ttl", "snapshot.path": "snapshot", "snapshot.wait": "snapshot-wait", "snapshot.maxAge": "snapshot-max-age",
	"lameduck": "lameduck", "http": "http", "logFormat": "log-format",
}

// over puts the flags that were given over c.
func (d *dnsFlags) over(c v1alpha1.DNSConfiguration, flags *pflag.FlagSet) v1alpha1.DNSConfiguration {
	g := d.given
	for flag, set := range map[string]func(){
		"listen":           func() { c.Listen = g.Listen },
		"manifests":        func() { c.Manifests = g.Manifests },
		"kubeconfig":       func() { c.Kubeconfig = g.Kubeconfig },
		"cluster-domain":   func() { c.ClusterDomain = g.ClusterDomain },
		"upstream":         func() { c.Upstreams = g.Upstreams },
		"resolv-conf":      func() { c.ResolvConf, c.Upstreams = &d.resolvConf, g.Upstreams }, // the file's would hide it
		"host-suffix":      func() { c.HostSuffixes = g.HostSuffixes },
		"autopath-suffix":  func() { c.AutopathSuffix = g.AutopathSuffix },
		"edns-option":      func() { c.EDNSOption = g.EDNSOption },
		"autopath-network": func() { c.AutopathNetworks = g.AutopathNetworks },
		"reverse-cidr":     func() { c.ReverseCIDRs = g.ReverseCIDRs },
		"pods":             func() { c.Pods = g.Pods },
		"ttl":              func() { c.TTL = &d.ttl },
		"snapshot":         func() { c.Snapshot.Path = g.Snapshot.Path },
		"snapshot-wait":    func() { c.Snapshot.Wait = g.Snapshot.Wait },
		"snapshot-max-age": func() { c.Snapshot.MaxAge = g.Snapshot.MaxAge },
		"lameduck":         func() { c.Lameduck = g.Lameduck },
		"http":             func() { c.HTTP = g.HTTP },
		"log-format":       func() { c.LogFormat = g.LogFormat },
		"stub-domain":      func() { c.StubDomains = stubDomains(d.stubs) },
	} {
		if flags.Changed(flag) {
			set()
		}
	}
	return c
}

// load reads the file and puts the flags that were given over what it says.
func (d *dnsFlags) load(flags *pflag.FlagSet) (dnsSettings, error) {
	if _, err := newDNSSettings(d.over(v1alpha1.DNSConfiguration{}, flags), dnsFlagNames); err != nil {
		return dnsSettings{}, usageError{err}
	}
	d.files.Reset()
	c, err := readDNS(&d.files, d.config)
	if err != nil {
		return dnsSettings{}, err
	}
	s, err := newDNSSettings(d.over(c, flags), nil)
	s.manifestsFrom = d.config + ": manifests"
	if flags.Changed("manifests") {
		s.manifestsFrom = "--manifests"
	}
	return s, err
}

func (d *dnsFlags) run(cmd *cobra.Command) error {
	s, err := d.load(cmd.Flags())
	if err != nil {
		return err
	}
	log, err := newLogger(cmd.ErrOrStderr(), s.LogFormat)
	if err != nil {
		return err
	}
	hangup, stop := hangups()
	defer stop()
	force := &dnsInForce{log: log, load: func() (peers, []string, error) {
		next, err := d.load(cmd.Flags())
		return next.peers, s.needRestart(next), err
	}}
	return serveDNS(cmd.Context(), s, force, &reloader{files: &d.files, hangup: hangup, reload: force.reload, log: log}, log)
}

// serveDNS runs the server and what it needs until ctx ends or one of them fails.
func serveDNS(ctx context.Context, s dnsSettings, force *dnsInForce, r *reloader, log *slog.Logger) error {
	z, err := s.zone()
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	data, err := s.data(z, registry, log)
	if err != nil {
		return err
	}
	err = force.begin(dnsserver.Config{
		Zone: z, Domain: s.domain, TTL: s.ttl, Lameduck: s.lameduck, Autopath: s.autopath,
	}, s.peers, registry, r)
	if err != nil {
		return err
	}
	sockets, err := dnsserver.Listen(ctx, s.listen)
	if err != nil {
		return socketHint(err, "listen")
	}
	following, lastAnswer := context.WithCancel(context.WithoutCancel(ctx)) // names go on changing in the lameduck time
	defer lastAnswer()
	tasks := []func(context.Context) error{
		r.run,
		func(context.Context) error { return data.run(following) },
		func(ctx context.Context) error { defer lastAnswer(); return force.server.Run(ctx, sockets) },
	}
	if s.HTTP != "" {
		tasks = append(tasks, func(ctx context.Context) error {
			return serveHTTP(ctx, listenAt(s.HTTP), registry, func() ([]string, error) { return data.ready(z) })
		})
	}
	log.Info("serving", "listen", sockets.Addrs(), "clusterDomain", s.domain.String())
	return daemon.RunAll(ctx, tasks...)
}

// zone returns an empty zone by the settings.
func (s dnsSettings) zone() (*zone.Zone, error) {
	local, err := reachedAt(s.listen)
	if err != nil {
		return nil, err
	}
	return zone.New(zone.Config{Domain: s.domain, Pods: s.pods, Reverse: s.reverse, Local: local})
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

// data returns what fills the zone, from manifests or from the API server.
func (s dnsSettings) data(z *zone.Zone, metrics prometheus.Registerer, log *slog.Logger) (source, error) {
	if len(s.Manifests) > 0 {
		dirs, err := zonesync.NewDirectories(zonesync.DirectoriesConfig{Zone: z, Domain: s.domain, Paths: s.Manifests, Logger: log})
		if err != nil {
			return source{}, multierr.Prefix(s.manifestsFrom, err)
		}
		return source{run: dirs.Run}, nil
	}
	c, err := client.LoadConfig(s.Kubeconfig)
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
	api, err := zonesync.New(zonesync.Config{
		Zone: z, Domain: s.domain, Core: core, Discovery: discovery, Pods: s.pods == zone.PodsVerified,
		Snapshot: s.Snapshot.Path, SnapshotWait: s.snapshotWait, SnapshotMaxAge: s.snapshotMaxAge, Logger: log, Register: metrics,
	})
	if err != nil {
		return source{}, err
	}
	return source{api.Run, api.Status}, nil
}
