// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/agent"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the node agent that writes the resolv.conf of pods",
		Long: `Run the node agent. The NRI relay ("dnsconfigurer nri") notifies it of each sandbox
and container. Before the first container of a pod is created, the agent writes the DNS
configuration of the policy engine into the resolv.conf that the runtime mounts into the
containers of the pod. The kubelet and its configuration do not change.

If the pod is not found in time, its containers start with the kubelet's DNS, and the
file is written when the pod is found. If the pod is not found at all, or the text of its file is
not recognized, the file stays as it is; docs/nodes.md lists the outcomes.

The node facts (clusterDNS, clusterDomain and resolvConf of the kubelet) have no defaults. They
are required unless the field inferNodeFacts is set. Set --kubelet-config, so that they cannot
differ from the kubelet's. If they lead to another DNS configuration than the kubelet computed,
the file stays as it is, unless the mode is Force.

Flags override the configuration file. It is read again when it or a file that it names changes, and
at once on SIGHUP. If the configuration is invalid, the agent keeps the previous one.`,
		Example: `  dnsconfigurer agent --config /etc/dnsconfigurer/agent.yaml
  dnsconfigurer agent --kubelet-config /var/lib/kubelet/config.yaml --node-name worker-1 \
    --kubeconfig /etc/kubernetes/kubelet.conf --manifests /etc/kubernetes/manifests`,
		Args: usage.NoArguments,
	}
	source := config.AgentKind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.ServeOnNode(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			server := agent.Server{Source: source, Reload: p.Reload, Version: version(), Log: p.Log, Writer: p.Writer}
			return server.Run(cmd.Context(), c)
		})
	}
	return cmd
}
