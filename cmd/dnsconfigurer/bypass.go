// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/events"
	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// eventTimeout limits sending the event about the node: the API server may be down.
const eventTimeout = 15 * time.Second

func bypassCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bypass",
		Short: "Turn the bypass of the shim on or off",
		Long: `Let the kubelet use the container runtime without the shim, until "dnsconfigurer bypass off".
The socket of the shim becomes a link to that of the container runtime, so that the kubelet
needs no restart; a reboot does not end the bypass. The unit dnsconfigurer-bypass.service runs
"dnsconfigurer bypass on" after the shim has failed five times in a minute.`,
		Args: cobra.ArbitraryArgs,
		RunE: usage.RequireCommand,
	}
	cmd.AddCommand(bypassOnCommand(), bypassOffCommand())
	return cmd
}

func bypassOnCommand() *cobra.Command {
	n, reason := install.Node{}, ""
	cmd := &cobra.Command{
		Use:     "on",
		Short:   "Stop the shim, and let the kubelet use the container runtime directly",
		Example: `  dnsconfigurer bypass on --reason "wrong search list, see ticket"`,
		Args:    usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began, err := n.StartBypass(cmd.Context(), reason)
			if began {
				reportBypass(cmd, &n, events.ReasonBypassBegan,
					"the kubelet uses the container runtime without the shim: "+reason+"; to return: dnsconfigurer bypass off")
			}
			return err
		},
	}
	n.Register(cmd.Flags())
	n.RegisterMetrics(cmd.Flags())
	cmd.Flags().StringVar(&reason, "reason", "requested by a command",
		"`TEXT` that the event on the node and \"dnsconfigurer status\" show")
	return cmd
}

func bypassOffCommand() *cobra.Command {
	n := install.Node{}
	cmd := &cobra.Command{
		Use:   "off",
		Short: "Start the shim, and let the kubelet use it again",
		Long: `Start the shim, and check that it forwards calls. If it does not, the bypass stays.

The kubelet keeps its connection to the container runtime until the kubelet or the container runtime
is restarted. Restart the kubelet, or set --restart-kubelet, which restarts it also if the bypass is
off already.`,
		Example: `  dnsconfigurer bypass off --restart-kubelet`,
		Args:    usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ended, err := n.EndBypass(cmd.Context())
			if err != nil {
				return err
			}
			if ended {
				reportBypass(cmd, &n, events.ReasonBypassEnded,
					"the shim serves again, and the kubelet uses it after a restart of the kubelet or the container runtime")
			} else if _, err := fmt.Fprintln(cmd.OutOrStdout(), "the bypass is off already"); err != nil || !n.RestartKubelet {
				return err
			}
			return n.UseShim(cmd.Context(), cmd.OutOrStdout())
		},
	}
	n.Register(cmd.Flags())
	n.RegisterMetrics(cmd.Flags())
	n.RegisterKubelet(cmd.Flags())
	n.RegisterRestart(cmd.Flags())
	return cmd
}

// reportBypass sends an event about the node if it is this machine. A failure is only printed: the
// bypass is switched nevertheless.
func reportBypass(cmd *cobra.Command, n *install.Node, reason, message string) {
	if !n.IsThisMachine() {
		return // with --root the node may be a mounted image: this machine has no credentials for its events
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), eventTimeout)
	defer cancel()
	file, err1 := n.ConfigPath()
	state, err2 := n.StatePath()
	err := errors.Join(err1, err2)
	if err == nil {
		err = shim.ReportBypass(ctx, file, state, version(), reason, message)
	}
	if err != nil {
		output.WriteError(cmd.ErrOrStderr(), err)
	}
}
