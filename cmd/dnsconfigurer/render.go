// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/rendering"
)

func renderCommand() *cobra.Command {
	o, nodeFlags := rendering.Options{}, config.NodeFlags{}
	cmd := &cobra.Command{
		Use:   "render (FILE|DIR|-)...",
		Short: "Print the resolv.conf and the hostname that pods get",
		Long: `Print the resolv.conf and the hostname that a node gives to each Pod and to the pods of
each template (Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job,
CronJob, PodTemplate, List) in YAML or JSON.

The result is the kubelet's, with the exceptions listed in docs/compatibility.md. Warnings
are written to standard error. Exit code 1: a file cannot be read, or a finding has the
severity error, for example because the pod would not start or the API server refuses it.`,
		Example: `  dnsconfigurer render examples/ --resolv-conf examples/node/resolv.conf
  dnsconfigurer render examples/autopath.yaml -o explain --config examples/node/shim.yaml
  kubectl get deployments -A -o yaml | dnsconfigurer render - -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Input.Paths = append(o.Input.Paths, args...)
			if err := o.Input.Check(); err != nil {
				return err
			}
			node, err := nodeFlags.Load()
			if err != nil {
				return err
			}
			return exitError(o.Run(cmd.Context(), node, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	o.Register(cmd.Flags())
	nodeFlags.Register(cmd.Flags())
	return cmd
}
