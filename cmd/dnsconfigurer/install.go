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

The command reads the kubelet's unit as systemd does, and changes the one setting that decides
the container runtime endpoint. If the unit uses the variable KUBELET_EXTRA_ARGS, the command
changes the variable: in the file in /etc that sets it, or in a drop-in. Otherwise the command
changes a file in the kubelet's --config-dir, or the kubelet's --config. If a flag of the kubelet
overrides all of these, the command changes nothing, and the error names the file and line of the
flag. The command also adds a drop-in to the unit, so that the kubelet starts after the shim.

If a step fails, the steps before are undone. A second call changes no file. The kubelet reads
its configuration when it starts: restart it, or set --restart-kubelet, which restarts a kubelet
that has not been restarted since the command configured it.`,
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
		Short: "Restore the kubelet's configuration as it was before install, and stop the shim",
		Long: `Restore the kubelet's configuration as it was before dnsconfigurer install. Lines that
were changed since then are kept.

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
