// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/dnsnode"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nri"
	"github.com/dnsconfigurer/dnsconfigurer/internal/shim"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

// serverConfig is a configuration of a server.
type serverConfig interface {
	Common() v1alpha1.ServerConfiguration
}

// serverCommand completes the command of a server with a configuration of a kind. run serves until its context ends.
func serverCommand[C serverConfig](
	kind *config.Kind[C], serve serveFunc, run func(context.Context, daemon.Process, *config.Source[C], C) error, cmd *cobra.Command,
) *cobra.Command {
	source := kind.FromFlags(cmd.Flags())
	cmd.Args = usage.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return serve(cmd.OutOrStdout(), cmd.ErrOrStderr(), c.Common().LogFormat, version(), func(p daemon.Process) error {
			return run(cmd.Context(), p, source, c)
		})
	}
	return cmd
}

// serveFunc is daemon.Serve or daemon.ServeOnNode.
type serveFunc = func(stdout, stderr io.Writer, format, version string, run func(daemon.Process) error) error

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
node.kubeletConfig, so that they cannot differ from the kubelet's.

Flags override the configuration file. If it is invalid, also at the start, the shim keeps the last
valid one, saved in $STATE_DIRECTORY; without one it forwards all requests unchanged. The shim exits
only if its socket or the runtime endpoint is unusable.`,
		Example: "  dnsconfigurer shim --config /etc/dnsconfigurer/shim.yaml",
	}
	source := shim.Kind().FromFlags(cmd.Flags())
	run := func(cmd *cobra.Command, flagsErr error) error {
		return daemon.ServeOnNode(cmd.OutOrStdout(), cmd.ErrOrStderr(), shim.LogFormat(source), version(), func(p daemon.Process) error {
			return shim.Run(cmd.Context(), p, source, flagsErr)
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
	return serverCommand(node.AgentKind(), daemon.ServeOnNode, node.RunAgent, &cobra.Command{
		Use:   "agent",
		Short: "Run the node agent that writes the resolv.conf of pods",
		Long: `Run the node agent. Before the first container of a pod is created, it writes the DNS
configuration of the policy engine into the resolv.conf that the runtime mounts into the
containers of the pod, and it keeps the files of running pods up to date. The NRI relay
("dnsconfigurer nri") or the shim notifies it of each sandbox. The kubelet does not change.

If the pod is not found in time, its containers start with the kubelet's DNS, and the
file is written when the pod is found. docs/nodes.md lists the outcomes.

The node facts (clusterDNS, clusterDomain and resolvConf of the kubelet) are required: set
node.kubeletConfig, so that they cannot differ from the kubelet's.

Flags override the configuration file. If it is invalid after a change, the agent keeps the previous
one.`,
		Example: "  dnsconfigurer agent --config /etc/dnsconfigurer/agent.yaml",
	})
}

func nriCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nri",
		Short: "Run the NRI plugin that notifies the agent of containers",
		Long: `Run the relay between the container runtime and the agent: an NRI plugin that notifies
the agent of each sandbox, and of each container before it is created. It changes no
container and fails no call. A container waits at most 200 ms for the agent.

When a plugin registers, containerd starts no pod until no container is being stopped. So the
relay first waits until no pod of the node is being stopped, for at most 15 minutes.`,
		Example: `  dnsconfigurer nri
  dnsconfigurer nri --agent /run/dnsconfigurer/agent.sock --http 127.0.0.1:9352`,
		Args: usage.NoArguments,
	}
	server, logFormat := nri.Server{}, ""
	flags := cmd.Flags()
	flags.StringVar(&server.Socket, "socket", v1alpha1.DefaultNRISocket, "`PATH` of the runtime's NRI socket")
	flags.StringVar(&server.Agent, "agent", v1alpha1.DefaultAgentSocket, "`PATH` of the agent's socket")
	flags.StringVar(&server.HTTP, "http", "", "`ADDR` of the status page, /metrics, /livez and /readyz; empty: none")
	usage.ChoiceFlag(flags, &logFormat, "log-format", "", "`FORMAT` of the log: text or json", "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := server.CheckFlags(); err != nil {
			return err
		}
		return daemon.ServeOnNode(cmd.OutOrStdout(), cmd.ErrOrStderr(), logFormat, version(), func(p daemon.Process) error {
			server.Process = p
			return server.Run(cmd.Context())
		})
	}
	return cmd
}

func dnsCommand() *cobra.Command {
	return serverCommand(dnsnode.ClusterDNSKind(), daemon.Serve, dnsnode.RunClusterDNS, &cobra.Command{
		Use:   "dns",
		Short: "Run the cluster DNS server",
		Long: `Serve the names of the cluster by Kubernetes DNS-Based Service Discovery 1.1.0, answer local
names such as localhost, and forward all other queries through a cache.

The Services and EndpointSlices come from the API server, or from manifests. Until they are
loaded, queries for names of the cluster, and for reverse names that may be the cluster's, get
SERVFAIL, never NXDOMAIN. Other queries are forwarded from the start.

Flags override the configuration file. If it is invalid after a change, the server keeps the
previous one.`,
		Example: `  dnsconfigurer dns --manifests examples/ --listen 127.0.0.1:1053
  dnsconfigurer dns --kubeconfig ~/.kube/config --listen 127.0.0.1:1053 --upstream 192.0.2.53
  dnsconfigurer dns --config /etc/dnsconfigurer/dns.yaml`,
	})
}

func nodeCacheCommand() *cobra.Command {
	return serverCommand(dnsnode.NodeCacheKind(), daemon.Serve, dnsnode.RunNodeCache, &cobra.Command{
		Use:   "nodecache",
		Short: "Run the DNS cache of a node, which also expands search lists (autopath)",
		Long: `Run the node-local DNS cache. Names of the cluster are forwarded to the cluster DNS,
others to the upstream servers of the node.

Queries of pods with the policy ClusterFirstWithAutopath are sent to the cluster DNS with
the search list in an EDNS0 option. If the cluster DNS does not support the option, the
cache expands the search list itself.

While the cluster DNS is unreachable, cached names of the cluster are still answered, and other
names of the cluster get SERVFAIL, never NXDOMAIN. Names outside the cluster are not affected.

Flags override the configuration file. If it is invalid after a change, the cache keeps the previous
one.`,
		Example: `  dnsconfigurer nodecache --cluster-dns 10.96.0.10 --listen 127.0.0.1:1053
  dnsconfigurer nodecache --config /etc/dnsconfigurer/nodecache.yaml`,
	})
}

func webhookCommand() *cobra.Command {
	return serverCommand(webhook.Kind(), daemon.Serve, webhook.Run, &cobra.Command{
		Use:   "webhook",
		Short: "Run the admission webhook that validates the DNS of pods",
		Long: `Run the admission webhook. It denies pods that would not start, and warns of DNS
settings that the node would truncate. At ` + webhook.PathMutate + ` it replaces the dnsPolicy
ClusterFirstWithAutopath, which the API server would reject, by an annotation and a dnsPolicy
that the API server accepts. From Kubernetes 1.36 on, an admission policy can do this instead.

The rules are those of "dnsconfigurer validate". The Helm chart runs the webhook and registers
it in a cluster.

Flags override the configuration file. It and the certificate are read again when they change. If
the file is invalid, the webhook keeps the previous one.`,
		Example: `  dnsconfigurer webhook --config /etc/dnsconfigurer/webhook.yaml`,
	})
}
