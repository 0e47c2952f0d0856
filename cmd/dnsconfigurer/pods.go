// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
)

// watchInterval is the pause between two outputs of --watch.
const watchInterval = 2 * time.Second

func podsCommand() *cobra.Command {
	client, format, watch := nodestatus.Client{}, "", false
	cmd := &cobra.Command{
		Use:   "pods [NAMESPACE/NAME]",
		Short: "Print the pods of this node, their DNS policy, and whether their resolv.conf is as decided",
		Long: `Print the pods of this node as the agent or the shim has decided them: the policy and its source (the
specification or the annotation dnsconfigurer.dev/policy), the outcome of the decision, how
the resolv.conf differs from the decision, and when it was last rewritten.

With the name of a pod, print the expected and the actual file, too.

Run it as root on the node, while dnsconfigurer agent runs, or a shim with a statusSocket.`,
		Example: `  dnsconfigurer pods
  dnsconfigurer pods shop/web-0
  dnsconfigurer pods --watch
  dnsconfigurer pods -o json`,
		Args: atMostOnePod,
	}
	registerSocket(cmd, &client)
	cmd.Flags().StringVarP(&format, "output", "o", "text", "`FORMAT`: text or json")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print the pods again every 2 seconds, until interrupted")
	completeFlag(cmd, "output", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(format, "text", "json"); err != nil {
			return err
		}
		pod := ""
		if len(args) > 0 {
			pod = args[0]
		}
		if watch {
			return watchPods(cmd, client, pod, format)
		}
		return printPods(cmd.Context(), cmd.OutOrStdout(), client, pod, format)
	}
	return cmd
}

// watchPods prints the pods until the command is interrupted.
func watchPods(cmd *cobra.Command, client nodestatus.Client, pod, format string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	for ctx.Err() == nil {
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J") // ECMA-48: cursor to the first line, erase the page
		}
		if err := printPods(ctx, out, client, pod, format); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
	}
	return nil
}

func printPods(ctx context.Context, out io.Writer, client nodestatus.Client, pod, format string) error {
	pods, err := client.Pods(ctx)
	if err != nil {
		return err
	}
	if pod != "" {
		if pods.Pods = selectPod(pods.Pods, pod); len(pods.Pods) == 0 {
			return fmt.Errorf("%w: %s: dnsconfigurer pods lists those of this node", nodestatus.ErrUnknownPod, pod)
		}
	}
	switch {
	case format == "json":
		err = output.WriteJSON(out, pods)
	case pod != "":
		err = output.WritePods(out, pods.Pods)
	default:
		err = output.WritePodTable(out, pods.Pods)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

func selectPod(pods []v1alpha1.NodePod, pod string) (selected []v1alpha1.NodePod) {
	for _, p := range pods {
		if p.Namespace+"/"+p.Name == pod {
			selected = append(selected, p)
		}
	}
	return selected
}
