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
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodeaddr"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

func nodeCacheCommand() *cobra.Command {
	n := nodeCacheFlags{}
	cmd := &cobra.Command{
		Use:   "nodecache",
		Short: "Serve the pods of a node from a cache, and have the cluster DNS go along their search lists",
		Long: `Serve the pods of a node from a cache: names of the cluster by the cluster DNS,
others by the node's own servers.

Names of pods with the policy ClusterFirstWithAutopath are sent to the cluster DNS
with the search list in an EDNS0 option. A cluster DNS that does not know the option
is noticed, and the list is then gone along here.

What was known is still answered while the cluster DNS is away; for the rest there is
SERVFAIL, and never that a name does not exist.

A flag wins over the file of --config. A changed file is read again, at once on
SIGHUP. One with an error changes nothing.`,
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --interface dnsconfigurer
  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --listen 169.254.20.10:53 --listen [fd00:20::10]:53 --http 127.0.0.1:9353
  dnsconfigurer nodecache --cluster-dns 127.0.0.1:1053 --listen 127.0.0.1:2053
  dnsconfigurer nodecache --config /etc/dnsconfigurer/nodecache.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	n.register(cmd.Flags())
	return cmd
}

// nodeCacheFlags are what a command line says about a cache on a node.
type nodeCacheFlags struct {
	config     string
	given      v1alpha1.NodeCacheConfiguration
	resolvConf string
	stubs      []string

	files config.Files // that were read
}

func (n *nodeCacheFlags) register(f *pflag.FlagSet) {
	f.StringVar(&n.config, "config", "", "`FILE` with a NodeCacheConfiguration")
	f.StringSliceVar(&n.given.Listen, "listen", []string{v1alpha1.DefaultNodeCacheListen}, "`ADDR:PORT` to serve on, UDP and TCP; repeatable")
	f.StringVar(&n.given.Interface, "interface", "", "`NAME` of a dummy interface for these addresses, made if there is none; empty: the node has them")
	f.StringSliceVar(&n.given.ClusterDNS, "cluster-dns", nil, "`ADDR[:PORT]` or tcp://ADDR[:PORT] of the cluster DNS; repeatable")
	f.StringVar(&n.given.ClusterDomain, "cluster-domain", v1alpha1.DefaultClusterDomain, "`DOMAIN` of the cluster")
	f.StringSliceVar(&n.given.Upstreams, "upstream", nil, "`ADDR[:PORT]` or tls://ADDR[:PORT]#NAME to ask for names of others; repeatable; instead of the servers of --resolv-conf")
	f.StringVar(&n.resolvConf, "resolv-conf", v1alpha1.DefaultUpstreamConf, "`PATH` of the node's file with servers and search domains; watched; empty: none")
	f.StringArrayVar(&n.stubs, "stub-domain", nil, "`ZONE=ADDR,..`: a domain that has servers of its own; repeatable")
	f.StringVar(&n.given.AutopathSuffix, "autopath-suffix", v1alpha1.DefaultAutopathSuffix, "`DOMAIN` below which names are looked for along a search list")
	f.Uint16Var(&n.given.EDNSOption, "edns-option", v1alpha1.DefaultEDNSOption, "`CODE` by which the list is sent to the cluster DNS, 65001 to 65534")
	f.StringVar(&n.given.HTTP, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&n.given.LogFormat, "log-format", v1alpha1.DefaultLogFormat, "`FORMAT` of the log: text or json")
}

// nodeCacheFlagNames are the flags of fields.
var nodeCacheFlagNames = fieldNames{
	"listen": "listen", "interface": "interface", "clusterDNS": "cluster-dns", "clusterDomain": "cluster-domain", "upstreams": "upstream",
	"resolvConf": "resolv-conf", "stubDomains": "stub-domain", "autopathSuffix": "autopath-suffix", "ednsOption": "edns-option",
	"http": "http", "logFormat": "log-format",
}

// over puts the flags that were given over c.
func (n *nodeCacheFlags) over(c v1alpha1.NodeCacheConfiguration, flags *pflag.FlagSet) v1alpha1.NodeCacheConfiguration {
	g := n.given
	for flag, set := range map[string]func(){
		"listen":          func() { c.Listen = g.Listen },
		"interface":       func() { c.Interface = g.Interface },
		"cluster-dns":     func() { c.ClusterDNS = g.ClusterDNS },
		"cluster-domain":  func() { c.ClusterDomain = g.ClusterDomain },
		"upstream":        func() { c.Upstreams = g.Upstreams },
		"resolv-conf":     func() { c.ResolvConf = &n.resolvConf },
		"stub-domain":     func() { c.StubDomains = stubDomains(n.stubs) },
		"autopath-suffix": func() { c.AutopathSuffix = g.AutopathSuffix },
		"edns-option":     func() { c.EDNSOption = g.EDNSOption },
		"http":            func() { c.HTTP = g.HTTP },
		"log-format":      func() { c.LogFormat = g.LogFormat },
	} {
		if flags.Changed(flag) {
			set()
		}
	}
	return c
}

// load reads the file and puts the flags that were given over what it says.
func (n *nodeCacheFlags) load(flags *pflag.FlagSet) (nodeCacheSettings, error) {
	if _, err := newNodeCacheSettings(n.over(v1alpha1.NodeCacheConfiguration{}, flags), nodeCacheFlagNames); err != nil {
		return nodeCacheSettings{}, usageError{err}
	}
	n.files.Reset()
	c, err := readNodeCache(&n.files, n.config)
	if err != nil {
		return nodeCacheSettings{}, err
	}
	s, err := newNodeCacheSettings(n.over(c, flags), nil)
	switch {
	case err != nil || len(s.peers.cluster.servers) > 0:
		return s, err
	case n.config != "":
		return s, missing(n.config, "clusterDNS", "cluster-dns")
	}
	return s, errNoClusterDNS
}

func (n *nodeCacheFlags) run(cmd *cobra.Command) error {
	s, err := n.load(cmd.Flags())
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
		next, err := n.load(cmd.Flags())
		return next.peers, s.needRestart(next), err
	}}
	return serveNodeCache(cmd.Context(), s, force, &reloader{files: &n.files, hangup: hangup, reload: force.reload, log: log}, log)
}

// serveNodeCache runs the server and what it needs until ctx ends or one of them fails.
func serveNodeCache(ctx context.Context, s nodeCacheSettings, force *dnsInForce, r *reloader, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	err := force.begin(dnsserver.Config{
		Domain: s.peers.cluster.domain, TTL: v1alpha1.DefaultTTL, Autopath: s.autopath,
	}, s.peers, registry, r)
	if err != nil {
		return err
	}
	if s.Interface != "" {
		var addrs []netip.Addr
		for _, l := range s.listen {
			addrs = append(addrs, l.Addr())
		}
		if err := nodeaddr.Ensure(s.Interface, addrs); err != nil {
			return err
		}
	}
	if err := fitToTakeOver(ctx, s.listen, force.forwarding.cluster.Exchange, s.peers.cluster.domain); err != nil {
		return err
	}
	sockets, err := dnsserver.ListenShared(ctx, s.listen)
	switch {
	case s.Interface == "" && errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; give --interface, or an address that the node has", err)
	case err != nil:
		return socketHint(err, "listen")
	}
	tasks := []func(context.Context) error{r.run, func(ctx context.Context) error { return force.server.Run(ctx, sockets) }}
	if s.HTTP != "" {
		// Shared too: readiness is that of the instance that takes the queries.
		listen := func() (net.Listener, error) { return dnsserver.ListenSharedTCP(ctx, s.HTTP) }
		tasks = append(tasks, func(ctx context.Context) error {
			return keepServingHTTP(ctx, listen, registry, force.clusterAnswers, log)
		})
	}
	log.Info("serving", "listen", sockets.Addrs(), "clusterDNS", s.peers.cluster.servers)
	return daemon.RunAll(ctx, tasks...)
}
