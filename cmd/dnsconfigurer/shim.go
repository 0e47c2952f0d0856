// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nri"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// shimCommand returns the command shim. args are the arguments of the process.
func shimCommand(args []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shim",
		Short: "Run the CRI proxy that sets the DNS configuration of pods",
		Long: `Run the proxy between the kubelet and the container runtime. It forwards every call
unchanged, except RunPodSandbox: it replaces the DNS configuration in the request by that
of the policy engine. If the pod cannot be looked up, the field onUnknownPod says whether the
request is forwarded unchanged, or fails so that the kubelet tries again. If there is no usable
decision, it is forwarded unchanged; docs/nodes.md lists the outcomes.

The node facts (clusterDNS, clusterDomain and resolvConf of the kubelet) are required: set
node.kubeletConfig, so that they cannot differ from the kubelet's. If they lead to another DNS
configuration than the kubelet sent, the request is forwarded unchanged, unless the mode is Force.

Flags override the configuration file. It is read again when it or a file that it names changes, and
at once on SIGHUP. If it is invalid, also at the start, the shim keeps the last valid one, saved in
$STATE_DIRECTORY; without one it forwards all requests unchanged. The shim exits only if its socket
or the runtime endpoint is unusable.`,
		Example: "  dnsconfigurer shim --config /etc/dnsconfigurer/shim.yaml",
	}
	source := shim.Kind().FromFlags(cmd.Flags())
	run := func(cmd *cobra.Command, flagsErr error) error {
		return daemon.ServeOnNode(cmd.ErrOrStderr(), shim.LogFormat(source), version(), func(p daemon.Process) error {
			server := shim.Server{Source: source, FlagsErr: flagsErr, Reload: p.Reload, Version: version(), Log: p.Log, Writer: p.Writer}
			return server.Run(cmd.Context())
		})
	}
	// The shim also runs with an invalid command line, and reports the error: without the shim no pod
	// could start. After a rollback the unit may have a flag that this version does not know.
	cmd.RunE = func(cmd *cobra.Command, rest []string) error { return run(cmd, usage.NoArguments(cmd, rest)) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		parseKnownFlags(cmd.Flags(), args)
		if help, _ := cmd.Flags().GetBool("help"); help {
			return usage.FlagError(cmd, err)
		}
		return run(cmd, usage.DescribeFlagError(cmd, err))
	})
	return cmd
}

// parseKnownFlags sets the flags of args that exist and have valid values. After an error it drops the
// first argument and parses the rest again. So it may set the value of an argument several times, and
// lists get duplicates. The flags that an invalid command line still sets are not lists.
func parseKnownFlags(flags *pflag.FlagSet, args []string) {
	for len(args) > 0 && flags.Parse(args) != nil {
		args = args[1:]
	}
}

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the node agent that writes the resolv.conf of pods",
		Long: `Run the node agent. Before the first container of a pod is created, it writes the DNS
configuration of the policy engine into the resolv.conf that the runtime mounts into the
containers of the pod, and it keeps the files of running pods up to date. The NRI relay
("dnsconfigurer nri") or the shim notifies it of each sandbox. The kubelet does not change.

If the pod is not found in time, its containers start with the kubelet's DNS, and the
file is written when the pod is found. docs/nodes.md lists the outcomes.

The node facts (clusterDNS, clusterDomain and resolvConf of the kubelet) are required: set
node.kubeletConfig, so that they cannot differ from the kubelet's. If they lead to another DNS
configuration than the kubelet computed, the file stays as it is, unless the mode is Force.

Flags override the configuration file. It is read again when it or a file that it names changes, and
at once on SIGHUP. If the configuration is invalid, the agent keeps the previous one.`,
		Example: "  dnsconfigurer agent --config /etc/dnsconfigurer/agent.yaml",
		Args:    usage.NoArguments,
	}
	source := node.AgentKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.ServeOnNode(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			server := node.Agent{Source: source, Reload: p.Reload, Version: version(), Log: p.Log, Writer: p.Writer}
			return server.Run(cmd.Context(), c)
		})
	}
	return cmd
}

func nriCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nri",
		Short: "Run the NRI plugin that notifies the agent of containers",
		Long: `Run the relay between the container runtime and the agent: an NRI plugin that notifies
the agent of each sandbox, and of each container before it is created. It changes no
container and fails no call. A container waits at most 200 ms for the agent.

When a plugin registers, containerd first waits for containers that are being stopped, and
starts no pod meanwhile. So the relay registers when no pod of the node is being stopped: it asks
the agent, and waits for at most 15 minutes, or 30 seconds for an agent that replies.`,
		Example: `  dnsconfigurer nri
  dnsconfigurer nri --agent /run/dnsconfigurer/agent.sock --http 127.0.0.1:9352`,
		Args: usage.NoArguments,
	}
	server, logFormat := nri.Server{Version: version()}, ""
	flags := cmd.Flags()
	flags.StringVar(&server.Socket, "socket", v1alpha1.DefaultNRISocket, "`PATH` of the runtime's NRI socket")
	flags.StringVar(&server.Agent, "agent", v1alpha1.DefaultAgentSocket, "`PATH` of the agent's socket")
	flags.StringVar(&server.HTTP, "http", "", "`ADDR` of the status page, /metrics, /livez and /readyz; empty: none")
	usage.ChoiceFlag(flags, &logFormat, "log-format", "", "`FORMAT` of the log: text or json", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := server.CheckFlags(); err != nil {
			return err
		}
		writer, err := daemon.NewLogWriter(cmd.ErrOrStderr(), logFormat)
		if err != nil {
			return err
		}
		defer writer.Start()()
		defer daemon.TuneRuntime()()
		server.Log, server.Writer = writer.Logger(), writer
		server.Log.Info("starting", "version", version())
		return server.Run(cmd.Context())
	}
	return cmd
}
