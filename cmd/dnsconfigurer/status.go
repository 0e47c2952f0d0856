// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/install"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodestatus"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
)

func statusCommand() *cobra.Command {
	f, format, client := nodeFlags{}, "", nodestatus.Client{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print whether the kubelet of this node uses the shim, and whether the shim serves",
		Long: `Print whether the kubelet is configured with the shim and by which file, whether the shim
forwards calls to the container runtime, its mode, the problems that it reports (with http in
its configuration), and whether the bypass is on. If the node agent runs, or the shim has a
statusSocket, print its mode and the state of its pods, too.

Exit code 1 unless the kubelet is configured with a shim that serves without problems, or the
kubelet is configured without the shim and an agent runs without problems.`,
		Example: "  dnsconfigurer status\n  dnsconfigurer status -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(format, "text", "json"); err != nil {
				return err
			}
			e, err := f.endpoints()
			if err != nil {
				return err
			}
			s := f.installer(e).Status(cmd.Context(), f.bypass(e), e.HTTP)
			if c, err := config.ShimKind().FromFile(f.path(f.config)).Load(); err == nil {
				s.Shim.Mode = string(c.Mode())
			}
			if f.isThisMachine() {
				addAgent(cmd.Context(), &s, client)
			}
			if format == "json" {
				err = output.WriteJSON(cmd.OutOrStdout(), &s)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), s.String())
			}
			if err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			if !s.OK() {
				return errReported
			}
			return nil
		},
	}
	f.register(cmd)
	f.registerKubelet(cmd)
	registerSocket(cmd, &client)
	cmd.Flags().StringVarP(&format, "output", "o", "text", "`FORMAT`: text or json")
	completeFlag(cmd, "output", "text", "json")
	return cmd
}

// addAgent adds the state of the agent to s if one runs.
func addAgent(ctx context.Context, s *install.Status, client nodestatus.Client) {
	agent, err := client.Status(ctx)
	switch {
	case err == nil:
		s.Agent = &agent
	case !errors.Is(err, nodestatus.ErrNotServed):
		s.AgentError = err.Error()
	}
}
