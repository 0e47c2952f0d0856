// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func statusCommand() *cobra.Command {
	n, format, client := install.Node{}, "", nodestatus.Client{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the kubelet of this node uses the shim, and whether the shim serves",
		Long: `Print whether the kubelet is configured with the shim and by which file, whether the shim
forwards calls to the container runtime, its mode, and whether the bypass is on. If the
configuration of the shim sets http, print the problems that the shim reports there. If the node
agent runs, also print its mode and problems. If the agent runs, or the shim has a statusSocket,
print how many files of pods differ from the decision.

Exit code 0: the kubelet is configured with a shim that serves without problems, or it is
configured without the shim and an agent runs without problems. Otherwise 1.`,
		Example: "  dnsconfigurer status\n  dnsconfigurer status -o json",
		Args:    usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := n.Status(cmd.Context(), client)
			if err != nil {
				return err
			}
			if format == "json" {
				err = output.WriteJSON(cmd.OutOrStdout(), &s)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), s.String())
			}
			return exitError(s.OK(), err)
		},
	}
	n.Register(cmd.Flags())
	n.RegisterKubelet(cmd.Flags())
	registerSocket(cmd, &client)
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	return cmd
}
