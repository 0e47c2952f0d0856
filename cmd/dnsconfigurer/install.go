// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// onNode returns a function that calls run for the node of a command.
func onNode(n *install.Node, run func(*cobra.Command, *install.Installer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		i, err := n.Installer()
		if err != nil {
			return err
		}
		return run(cmd, i)
	}
}

func installCommand() *cobra.Command {
	n := install.Node{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the shim between the kubelet and the container runtime of this node",
		Long: `Enable and start the units of the shim, check that the shim forwards calls to the
container runtime of the kubelet, and configure the kubelet with the socket of the shim.

The command writes a drop-in for the kubelet's unit, which orders the kubelet after the shim. If the
command line ends with the variable KUBELET_EXTRA_ARGS, as kubeadm's does, and no file sets it, the
drop-in sets it to the endpoint of the shim. If the kubelet has the flag --config-dir, the command
writes the endpoint into a file in that directory instead. In all other cases the command changes
nothing, and the error says what to write, and where.

If a step fails, the steps before are undone. A second call changes no file. The kubelet reads
its configuration when it starts: restart it, or set --restart-kubelet, which restarts a kubelet
that was not started with the drop-in.`,
		Example: `  dnsconfigurer install --dry-run
  dnsconfigurer install --restart-kubelet`,
		Args: usage.NoArguments,
		RunE: onNode(&n, func(cmd *cobra.Command, i *install.Installer) error {
			return i.Install(cmd.Context(), cmd.OutOrStdout())
		}),
	}
	n.RegisterInstall(cmd.Flags())
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
		RunE: onNode(&n, func(cmd *cobra.Command, i *install.Installer) error {
			return i.Uninstall(cmd.Context(), cmd.OutOrStdout())
		}),
	}
	n.RegisterInstall(cmd.Flags())
	return cmd
}

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
		RunE: onNode(&n, func(cmd *cobra.Command, i *install.Installer) error {
			began, err := i.StartBypass(cmd.Context(), reason)
			if began {
				reportBypass(cmd, i, node.ReasonBypassBegan,
					"the kubelet uses the container runtime without the shim: "+reason+"; to return: dnsconfigurer bypass off")
			}
			return err
		}),
	}
	n.Register(cmd.Flags())
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
is restarted.`,
		Example: `  dnsconfigurer bypass off && systemctl restart kubelet`,
		Args:    usage.NoArguments,
		RunE: onNode(&n, func(cmd *cobra.Command, i *install.Installer) error {
			ended, err := i.EndBypass(cmd.Context())
			if err != nil {
				return err
			}
			if !ended {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "the bypass is off already")
				return err
			}
			const after = "uses the shim after a restart of the kubelet or the container runtime"
			reportBypass(cmd, i, node.ReasonBypassEnded, "the bypass is off, and the kubelet "+after)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the kubelet "+after)
			return err
		}),
	}
	n.Register(cmd.Flags())
	return cmd
}

// reportBypass sends an event about the node if it is this machine. A failure is only printed: the
// bypass is switched nevertheless.
func reportBypass(cmd *cobra.Command, i *install.Installer, reason, message string) {
	if !i.Root.IsThisMachine() {
		return // with --root the node may be a mounted image: this machine has no credentials for its events
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), eventTimeout)
	defer cancel()
	if err := shim.ReportBypass(ctx, i.Config, i.Bypass.State, version(), reason, message); err != nil {
		cli.WriteError(cmd.ErrOrStderr(), err)
	}
}

func statusCommand() *cobra.Command {
	n, format, client := install.Node{}, "", node.StatusClient{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the kubelet of this node uses the shim, and whether the shim serves",
		Long: `Print whether the kubelet is configured with the shim and by which file, whether the shim
forwards calls to the container runtime, its mode, and whether the bypass is on. If the
configuration of the shim sets http, print the problems that the shim reports there. If the node
agent runs, also print its mode and problems, and how many files of pods differ from the decision.

Exit code 0: the kubelet is configured with a shim that serves without problems, or it is
configured without the shim and an agent runs without problems. Otherwise 1.`,
		Example: "  dnsconfigurer status\n  dnsconfigurer status -o json",
		Args:    usage.NoArguments,
		RunE: onNode(&n, func(cmd *cobra.Command, i *install.Installer) (err error) {
			s := i.Status(cmd.Context(), client)
			if format == "json" {
				err = cli.WriteJSON(cmd.OutOrStdout(), &s)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), s.String())
			}
			return exitError(s.OK(), err)
		}),
	}
	n.Register(cmd.Flags())
	n.RegisterKubelet(cmd.Flags())
	registerSocket(cmd, &client)
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	return interruptible(cmd)
}

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
