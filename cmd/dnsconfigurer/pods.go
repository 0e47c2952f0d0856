// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func podsCommand() *cobra.Command {
	client, format, watch := nodestatus.Client{}, "", false
	cmd := &cobra.Command{
		Use:   "pods [NAMESPACE/NAME]",
		Short: "Print the pods of this node, and whether their resolv.conf matches the decision",
		Long: `Print the pods of this node with the decisions of the agent or the shim: the policy and its
source (the specification or the annotation dnsconfigurer.dev/policy), the outcome, how the
resolv.conf differs from the decision, and when it was last rewritten.

With the name of a pod, print the expected and the actual file, too.

Run it as root on the node. The agent must run, or a shim with a statusSocket.`,
		Example: `  dnsconfigurer pods
  dnsconfigurer pods shop/web-0
  dnsconfigurer pods --watch
  dnsconfigurer pods -o json`,
		Args: usage.AtMostOnePod,
	}
	registerSocket(cmd, &client)
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the pods again every 2 seconds, until interrupted or an error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		write := func(ctx context.Context, out io.Writer) error {
			pod := strings.Join(args, "")
			pods, err := client.Pods(ctx, pod)
			if err != nil {
				return err
			}
			return output.WriteNodePods(out, format, pod, pods)
		}
		if watch {
			return output.Watch(cmd.Context(), cmd.OutOrStdout(), write)
		}
		return write(cmd.Context(), cmd.OutOrStdout())
	}
	return cmd
}
