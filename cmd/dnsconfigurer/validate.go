// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/output"
	"github.com/dnsconfigurer/dnsconfigurer/internal/validation"
)

func validateCommand() *cobra.Command {
	o, nodeFlags := validation.Options{Output: output.Validation{Version: version()}}, config.NodeFlags{}
	cmd := &cobra.Command{
		Use:   "validate (FILE|DIR|-)...",
		Short: "Check the DNS configuration and the hostnames of pods before they are applied",
		Long: `Check the DNS configuration and the hostnames of each Pod and each template
(Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob,
PodTemplate, List) in YAML or JSON: find values that the API server or the node would refuse,
that the node would truncate, or that a C library does not support. The pod templates of custom
resources, such as a Rollout or a JobSet, are checked, too. Services are checked, and whether
pods with a subdomain have a headless Service of that name. Other objects are ignored.

The result does not depend on this machine: the host's resolv.conf is only used if
--resolv-conf is set. Exit code 1: there is an error, or a document cannot be read; warnings
do not count unless --fail-on says so. docs/checks.md lists the rules and shows the use
in a pipeline.`,
		Example: `  dnsconfigurer validate -R deploy/ -n shop
  dnsconfigurer validate examples/trouble/ -o github --cluster-domain corp.example
  dnsconfigurer validate -R deploy/ --fail-on warning --ignore musl-search-line -o sarif
  helm template chart/ -n shop | dnsconfigurer validate - -n shop`,
	}
	o.Register(cmd.Flags())
	nodeFlags.RegisterWithoutHostDefault(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Input.Paths = append(o.Input.Paths, args...)
		if err := o.Check(); err != nil {
			return err
		}
		node, rules, err := nodeFlags.LoadRules()
		if err != nil {
			return err
		}
		output.WriteFindings(cmd.ErrOrStderr(), node.Findings)
		o.Output.Stdout, o.Output.Color = cmd.OutOrStdout(), output.IsTerminal(cmd.OutOrStdout())
		return exitError(o.Run(cmd.Context(), rules, node.Name, cmd.InOrStdin(), cmd.ErrOrStderr()))
	}
	return cmd
}
