// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
)

func shimCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shim",
		Short: "Run the CRI proxy that sets the DNS configuration of pods",
		Long: `Run the proxy between the kubelet and the container runtime. It passes every call
unchanged, except RunPodSandbox: it replaces the DNS configuration in the request by that
of the policy engine. If the pod is not found, or a check fails, the request passes
unchanged.

The node facts are required, preferably as the kubelet's own configuration file. They have
no defaults. If the DNS configuration that the kubelet sent does not follow from them, the
request passes unchanged.

Flags override the configuration file. The files are read again when they change, and
at once on SIGHUP. If the configuration is invalid, the shim keeps the previous one.`,
		Example: `  dnsconfigurer shim --config /etc/dnsconfigurer/shim.yaml
  dnsconfigurer shim --kubelet-config /var/lib/kubelet/config.yaml --node-name worker-1 \
    --kubeconfig /etc/kubernetes/kubelet.conf --manifests /etc/kubernetes/manifests`,
		Args: noArguments,
	}
	kind := config.ShimKind()
	source := kind.FromFlags(cmd.Flags(), kind.Defaults())
	logFormats := []string{"text", "json"}
	logFormat := cmd.Flags().String("log-format", v1alpha1.DefaultLogFormat, "`FORMAT` of the log: text or json")
	completeValues(cmd, source)
	completeFlag(cmd, "log-format", logFormats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(logFormats, *logFormat) {
			return usageError{fmt.Errorf("--log-format: %q: want text or json", *logFormat)}
		}
		defer daemon.TuneRuntime()()
		return serve(cmd, source, func(config.Shim) string { return *logFormat },
			func(ctx context.Context, c config.Shim, reload <-chan os.Signal, log *slog.Logger) error {
				server := shim.Server{Source: source, Reload: reload, Version: version(), Log: log}
				return server.Run(ctx, c)
			})
	}
	return cmd
}
