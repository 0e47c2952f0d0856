// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
)

func handoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handover",
		Short: "Replace the running shim by a new process without a failed call",
		Long: `Replace the running shim by a new process, which uses the binary and the configuration that
are installed now. The new process takes over the socket and serves before the previous one stops
accepting connections. The previous one then completes its calls, up to handoverTimeout.

The command returns when the new process serves. If the new process fails, does not become
ready, or has an invalid configuration, the running one keeps serving, and the command prints the
reason and exits with 1.

The running shim starts the new process with its own command line and environment. Changed flags
and changes of the systemd unit take effect after a restart.`,
		Example: `  systemctl reload dnsconfigurer-shim.service
  dnsconfigurer handover --config /etc/dnsconfigurer/shim.yaml`,
		Args: usage.NoArguments,
	}
	source := config.SocketKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		endpoints, err := config.LoadEndpoints(source)
		if err != nil {
			return err
		}
		return cri.RequestHandover(cmd.Context(), config.SocketPath(endpoints.Listen))
	}
	return cmd
}
