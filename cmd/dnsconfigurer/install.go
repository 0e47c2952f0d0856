// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func installCommand() *cobra.Command {
	n := install.Node{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the shim between the kubelet and the container runtime of this node",
		Long: `Enable and start the units of the shim, check that the shim forwards calls to the
container runtime of the kubelet, and configure the kubelet with the socket of the shim.

The command reads the kubelet's unit as systemd does, and writes a drop-in for it. The drop-in
orders the kubelet after the shim. If the unit uses the variable KUBELET_EXTRA_ARGS and no file
sets it, the drop-in sets it to the endpoint of the shim. If the kubelet has the flag --config-dir,
the command writes the endpoint into a file in that directory instead. In all other cases the
command changes nothing, and the error says what to write, and where.

If a step fails, the steps before are undone. A second call changes no file. The kubelet reads
its configuration when it starts: restart it, or set --restart-kubelet, which restarts a kubelet
that was not started with the drop-in.`,
		Example: `  dnsconfigurer install --dry-run
  dnsconfigurer install --restart-kubelet`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.Install(cmd.Context(), cmd.OutOrStdout()) },
	}
	n.Register(cmd.Flags())
	n.RegisterKubelet(cmd.Flags())
	n.RegisterRestart(cmd.Flags())
	n.RegisterDryRun(cmd.Flags())
	return cmd
}

func uninstallCommand() *cobra.Command {
	n := install.Node{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the files of install from the kubelet's configuration, and stop the shim",
		Long: `Remove the files that dnsconfigurer install has written.

The kubelet uses the shim until the kubelet is restarted, and the command does not stop the shim
before. With --restart-kubelet the command restarts the kubelet, and then disables and stops the
units of the shim. Without it, restart the kubelet and run the command again. If a step fails, the
steps before are undone; if the shim cannot be stopped, the kubelet stays configured without it:
run the command again.`,
		Example: `  dnsconfigurer uninstall --dry-run
  dnsconfigurer uninstall --restart-kubelet`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.Uninstall(cmd.Context(), cmd.OutOrStdout()) },
	}
	n.Register(cmd.Flags())
	n.RegisterKubelet(cmd.Flags())
	n.RegisterRestart(cmd.Flags())
	n.RegisterMetrics(cmd.Flags())
	n.RegisterDryRun(cmd.Flags())
	return cmd
}
