// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodecache"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

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
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --interface dnsconfigurer
  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --listen 169.254.20.10:53 \
    --listen [fd00:20::10]:53 --http 127.0.0.1:9353
  dnsconfigurer nodecache --cluster-dns 127.0.0.1:1053 --listen 127.0.0.1:2053
  dnsconfigurer nodecache --config /etc/dnsconfigurer/nodecache.yaml`,
		Args: usage.NoArguments,
	}
	source := config.NodeCacheKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.Serve(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			server := nodecache.Server{Source: source, Reload: p.Reload, Version: version(), Log: p.Log}
			return server.Run(cmd.Context(), c)
		})
	}
	return cmd
}
