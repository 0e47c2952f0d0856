// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/relay"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func nriCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nri",
		Short: "Run the NRI plugin that notifies the agent of containers",
		Long: `Run the relay between the container runtime and the agent: an NRI plugin that notifies
the agent of each sandbox, and of each container before it is created. It changes no
container and fails no call. A container waits at most 200 ms for the agent.

It connects again when the runtime or the agent has restarted. When a plugin registers,
containerd first waits for containers that are being stopped, and starts no pod meanwhile.
So the relay registers when no pod of the node is being stopped: it asks the agent, and
waits for at most 15 minutes, or 30 seconds for an agent that replies.`,
		Example: `  dnsconfigurer nri
  dnsconfigurer nri --agent /run/dnsconfigurer/agent.sock --http 127.0.0.1:9352`,
		Args: usage.NoArguments,
	}
	server, logFormat := relay.Server{Version: version()}, ""
	flags := cmd.Flags()
	flags.StringVar(&server.Socket, "socket", v1alpha1.DefaultNRISocket, "`PATH` of the runtime's NRI socket")
	flags.StringVar(&server.Agent, "agent", config.SocketPath(v1alpha1.DefaultAgentListen), "`PATH` of the agent's socket")
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
