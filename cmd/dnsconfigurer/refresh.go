// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func refreshCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "refresh NAMESPACE/NAME | --all",
		Short: "Rewrite the resolv.conf of running pods of this node",
		Long: `Decide the DNS configuration of a pod of this node again, and write it into its resolv.conf in
place. The command ignores the field refresh of the configuration, and prints the result for each
pod. For one pod it also ignores the annotation dnsconfigurer.dev/refresh, replaces a file that the
pod has changed, and ends the effect of "dnsconfigurer restore".

With --all, rewrite the files that differ, except restored ones, those that the pod has changed,
those whose new nameservers the pod cannot reach, and those that an annotation or the mode excludes.
The result of each pod has the reason.

Exit code 1 if a file cannot be read or written, or the command fails. Run it as root on the node.
The agent must run.`,
		Example: "  dnsconfigurer refresh shop/web-0\n  dnsconfigurer refresh --all",
	}
	setPodsCommand(cmd, node.StatusClient.Refresh)
	return cmd
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore NAMESPACE/NAME | --all",
		Short: "Restore the kubelet's resolv.conf in running pods of this node",
		Long: `Write the text that the kubelet computed into the resolv.conf of a pod of this node, or of
all pods, also where a pod has changed its file. A restored file is not rewritten, not even after a
restart of the agent, until "dnsconfigurer refresh" is run for the pod. A new sandbox of
the pod gets a new decision.

Exit code 1 if a file cannot be restored, for example because the pod has replaced it as a whole,
or because a shim edited the request that started the pod, and the agent was restarted before the
first refresh of the file. Run it as root on the node. The agent must run.`,
		Example: "  dnsconfigurer restore shop/web-0\n  dnsconfigurer restore --all",
	}
	setPodsCommand(cmd, node.StatusClient.Restore)
	return cmd
}

// podsFunc calls the agent for a pod, NAMESPACE/NAME. The empty string means all pods.
type podsFunc = func(client node.StatusClient, ctx context.Context, pod string) ([]v1alpha1.NodeResult, error)

// setPodsCommand makes cmd a command that calls the agent for one pod or for all.
func setPodsCommand(cmd *cobra.Command, call podsFunc) {
	client, all := node.StatusClient{}, false
	registerSocket(cmd, &client)
	cmd.Flags().BoolVar(&all, "all", false, "all pods of the node")
	cmd.Args = usage.AtMostOnePod
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) == 1) {
			return usage.Errorf("want one NAMESPACE/NAME, or --all")
		}
		results, err := call(client, cmd.Context(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		failed := false
		for _, r := range results {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			failed = failed || r.Result == string(node.Failed)
		}
		return exitError(!failed, nil)
	}
}

// registerSocket adds the flag for the status socket of the agent.
func registerSocket(cmd *cobra.Command, client *node.StatusClient) {
	cmd.Flags().StringVar(&client.Socket, "socket", v1alpha1.DefaultStatusSocket,
		"`PATH` of agent-status.sock, which is beside the socket of the agent")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if client.Socket == "" {
			return usage.Errorf("--socket: the path is empty: set one, or leave the flag out for the default")
		}
		return nil
	}
}

func podsCommand() *cobra.Command {
	client, format := node.StatusClient{}, ""
	cmd := &cobra.Command{
		Use:   "pods [NAMESPACE/NAME]",
		Short: "Print the pods of this node, and whether their resolv.conf matches the decision",
		Long: `Print the pods of this node with the decisions of the agent: the policy and its
source (the specification or the annotation dnsconfigurer.dev/policy), the outcome, how the
resolv.conf differs from the decision, and when it was last rewritten.

With the name of a pod, print the expected and the actual file, too.

Run it as root on the node. The agent must run.`,
		Example: `  dnsconfigurer pods
  dnsconfigurer pods shop/web-0
  watch dnsconfigurer pods
  dnsconfigurer pods -o json`,
		Args: usage.AtMostOnePod,
	}
	registerSocket(cmd, &client)
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pod := strings.Join(args, "")
		pods, err := client.Pods(cmd.Context(), pod)
		if err != nil {
			return err
		}
		return cli.WriteNodePods(cmd.OutOrStdout(), format, pod, pods)
	}
	return cmd
}
