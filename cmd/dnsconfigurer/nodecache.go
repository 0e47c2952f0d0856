// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// defaultNodeCache is where pods find the node cache: a link-local address, the same on
// each node.
const defaultNodeCache = "169.254.20.10:53"

// nodeCacheTTL is that of the little that a node cache says by itself, in seconds.
const nodeCacheTTL = 5

func nodeCacheCommand() *cobra.Command {
	n := nodeCacheFlags{}
	cmd := &cobra.Command{
		Use:   "nodecache",
		Short: "Cache DNS on a node, and have search lists expanded",
		Long: `Answer the pods of a node from a cache: names of the cluster come from the cluster DNS,
all others from the servers of the host's resolv.conf. Without them the last answers are
given for an hour.

A name of autopath (see docs/autopath.md) is sent to the cluster DNS once, with the
search list in an option: the namespace's, and the search domains of the host's
resolv.conf as it is now. Where the cluster DNS does not expand, the node cache goes
along the list itself.`,
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10
  dnsconfigurer nodecache --listen 169.254.20.10:53 --listen [fd00:20::10]:53 --cluster-dns 10.96.0.10 --http :8080
  dnsconfigurer nodecache --listen 127.0.0.1:1053 --cluster-dns 127.0.0.1:2053 --stub-domain corp.example=192.0.2.1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), n.LogFormat)
			if err != nil {
				return err
			}
			return n.run(cmd.Context(), log)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&n.Listen, "listen", []string{defaultNodeCache}, "`ADDR:PORT` to serve on, UDP and TCP; repeatable. The address must be there")
	f.StringSliceVar(&n.clusterDNS, "cluster-dns", nil, "`ADDR[:PORT]` of the cluster DNS; repeatable")
	f.StringVar(&n.ClusterDomain, "cluster-domain", v1alpha1.DefaultClusterDomain, "`DOMAIN` of the cluster")
	f.StringVar(&n.resolvConf, "resolv-conf", v1alpha1.DefaultUpstreamConf, "`PATH` of the host's file, with the servers to forward to and the search domains; watched")
	f.StringArrayVar(&n.stubs, "stub-domain", nil, "`ZONE=ADDR,..`: a domain that has servers of its own; repeatable")
	f.StringVar(&n.suffix, "autopath-suffix", "ap.k8s.io", "`DOMAIN` below which names carry their search list")
	f.Uint16Var(&n.option, "edns-option", autopath.DefaultOption, "`CODE` of the EDNS0 option for search lists, as the cluster DNS knows it")
	f.StringVar(&n.Lameduck, "lameduck", "0s", "`TIME` for which queries are still answered after the signal to end")
	f.StringVar(&n.HTTP, "http", "", "`ADDR` of /metrics, /livez and /readyz; empty: none")
	f.StringVar(&n.LogFormat, "log-format", v1alpha1.DefaultLogFormat, "`FORMAT` of the log: text or json")
	return cmd
}

// nodeCacheFlags are what a command line says about a node cache. What it has in common
// with a DNS server is checked as that.
type nodeCacheFlags struct {
	v1alpha1.DNSConfiguration

	clusterDNS []string
	resolvConf string
	stubs      []string
	suffix     string
	option     uint16
}

// settings are those of a DNS server that has the cluster DNS for a stub.
func (n *nodeCacheFlags) settings() (s dnsSettings, suffix fqdn.Name, err error) {
	c := n.DNSConfiguration
	c.ResolvConf, c.StubDomains = &n.resolvConf, parseStubs(n.stubs)
	if len(n.clusterDNS) == 0 {
		return s, "", errors.New("--cluster-dns is missing")
	}
	// Reverse names of the cluster are among all others of these zones.
	for _, zone := range []string{n.ClusterDomain, "in-addr.arpa", "ip6.arpa"} {
		c.StubDomains = append(c.StubDomains, v1alpha1.StubDomain{Zone: zone, Servers: n.clusterDNS})
	}
	if s, err = newDNSSettings(c, dnsFlagNames); err != nil {
		return s, "", err
	}
	s.searchesAsHost = true
	if suffix, err = fqdn.ParseName(n.suffix); err != nil {
		return s, "", fmt.Errorf("--autopath-suffix %q: %w", n.suffix, err)
	}
	return s, suffix, nil
}

// run serves until ctx ends.
func (n *nodeCacheFlags) run(ctx context.Context, log *slog.Logger) error {
	s, suffix, err := n.settings()
	if err != nil {
		return usageError{err}
	}
	replies, err := cache.New(cache.Config{})
	if err != nil {
		return err
	}
	registry, loop := prometheus.NewRegistry(), &upstream.Loop{}
	var server *dnsserver.Server
	f, err := newForwarding(s, upstream.Config{Loop: loop, Metrics: upstream.NewMetrics(registry), Logger: log},
		func(f *forwarding) { server.Use(f.Forwarding) })
	if err != nil {
		return err
	}
	server, err = dnsserver.New(dnsserver.Config{
		Domain: s.domain, TTL: nodeCacheTTL, Cache: replies, Upstream: f.Upstream, Stubs: f.Stubs, Returned: loop.Returned,
		Autopath: dnsserver.Autopath{Suffix: suffix, Option: n.option, HostSuffixes: f.HostSuffixes, Expander: f.stub(s.domain)},
		Lameduck: s.lameduck, Drain: dnsDrain, Logger: log, Register: registry,
	})
	if err != nil {
		return usageError{err}
	}
	sockets, err := dnsserver.Listen(ctx, s.listen)
	if err != nil {
		return err
	}
	following, lastAnswer := context.WithCancel(context.WithoutCancel(ctx))
	defer lastAnswer()
	tasks := []func(context.Context) error{
		func(context.Context) error { return f.run(following) },
		func(ctx context.Context) error { defer lastAnswer(); return server.Run(ctx, sockets) },
	}
	if s.HTTP != "" {
		tasks = append(tasks, func(ctx context.Context) error {
			return serveHTTP(ctx, s.HTTP, registry, func() ([]string, error) { return nil, nil })
		})
	}
	log.Info("serving", "listen", sockets.Addrs(), "clusterDNS", n.clusterDNS, "clusterDomain", s.domain.String())
	return together(ctx, tasks)
}
