// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func dnsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Run the cluster DNS server",
		Long: `Serve the names of the cluster by Kubernetes DNS-Based Service Discovery 1.1.0, answer local
names such as localhost, and forward all other queries through a cache.

The Services and EndpointSlices come from the API server, or from manifests. Until they are
loaded, queries for names of the cluster, and for reverse names that may be the cluster's, get
SERVFAIL, never NXDOMAIN. Other queries are forwarded from the start.

Flags override the configuration file. It is read again when it changes, and at once on
SIGHUP. If it is invalid, the server keeps the previous one.`,
		Example: `  dnsconfigurer dns --manifests examples/ --listen 127.0.0.1:1053
  dnsconfigurer dns --kubeconfig ~/.kube/config --listen 127.0.0.1:1053 --upstream 192.0.2.53
  dnsconfigurer dns --config /etc/dnsconfigurer/dns.yaml`,
		Args: usage.NoArguments,
	}
	source := dnsnode.ClusterDNSKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.Serve(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			process := dnsnode.Process[dnsnode.ClusterDNSConfig]{Source: source, Reload: p.Reload, Version: version(), Log: p.Log,
				Stdout: cmd.OutOrStdout()}
			return dnsnode.RunClusterDNS(cmd.Context(), process, c)
		})
	}
	return cmd
}

func nodeCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodecache",
		Short: "Run the DNS cache of a node, which also expands search lists (autopath)",
		Long: `Run the node-local DNS cache. Names of the cluster are forwarded to the cluster DNS,
others to the upstream servers of the node.

Queries of pods with the policy ClusterFirstWithAutopath are sent to the cluster DNS with
the search list in an EDNS0 option. If the cluster DNS does not support the option, the
cache expands the search list itself.

While the cluster DNS is unreachable, cached names of the cluster are still answered, and other
names of the cluster get SERVFAIL, never NXDOMAIN. Names outside the cluster are not affected.

Flags override the configuration file. It is read again when it changes, and at once on
SIGHUP. If it is invalid, the cache keeps the previous one.`,
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --listen 127.0.0.1:1053
  dnsconfigurer nodecache --config /etc/dnsconfigurer/nodecache.yaml`,
		Args: usage.NoArguments,
	}
	source := dnsnode.NodeCacheKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.Serve(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			process := dnsnode.Process[dnsnode.NodeCacheConfig]{Source: source, Reload: p.Reload, Version: version(), Log: p.Log,
				Stdout: cmd.OutOrStdout()}
			return dnsnode.RunNodeCache(cmd.Context(), process, c)
		})
	}
	return cmd
}
