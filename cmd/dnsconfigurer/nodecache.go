// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodecache"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func nodeCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodecache",
		Short: "Run the node-local DNS cache, with server-side search",
		Long: `Run the node-local DNS cache. Names of the cluster are forwarded to the cluster DNS,
others to the upstream servers of the node.

Queries of pods with the policy ClusterFirstWithAutopath are sent to the cluster DNS with
the search list in an EDNS0 option. If the cluster DNS does not support the option, the
cache expands the search list itself.

While the cluster DNS is unreachable, cached names are still answered. All others get
SERVFAIL, never NXDOMAIN.

Flags override the configuration file. It is read again when it changes, and at once on
SIGHUP. If it is invalid, the cache keeps the previous one.`,
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --interface dnsconfigurer
  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --listen 169.254.20.10:53 \
    --listen [fd00:20::10]:53 --http 127.0.0.1:9353
  dnsconfigurer nodecache --cluster-dns 127.0.0.1:1053 --listen 127.0.0.1:2053
  dnsconfigurer nodecache --config /etc/dnsconfigurer/nodecache.yaml`,
		Args: usage.NoArguments,
	}
	source := addConfigFlags(cmd, config.NodeCacheKind())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return serve(cmd, source, func(c config.NodeCache) string { return c.LogFormat },
			func(ctx context.Context, c config.NodeCache, reload <-chan os.Signal, log *slog.Logger) error {
				server := nodecache.Server{Source: source, Reload: reload, Version: version(), Log: log}
				return server.Run(ctx, c)
			})
	}
	return cmd
}
