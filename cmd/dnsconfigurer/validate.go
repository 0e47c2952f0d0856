// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"

	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func validateCommand() *cobra.Command {
	o, nodeFlags := cli.ValidateOptions{Output: cli.Validation{Version: version()}}, nodefacts.Flags{}
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
		cli.WriteFindings(cmd.ErrOrStderr(), node.Findings)
		o.Output.Stdout, o.Output.Color = cmd.OutOrStdout(), cli.IsTerminal(cmd.OutOrStdout())
		return exitError(o.Run(cmd.Context(), rules, node.Name, cmd.InOrStdin(), cmd.ErrOrStderr()))
	}
	return interruptible(cmd)
}

func renderCommand() *cobra.Command {
	o, nodeFlags := cli.RenderOptions{}, nodefacts.Flags{}
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
	return interruptible(cmd)
}

func rulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rules [CODE]",
		Short: "List the codes of findings, and explain them",
		Long: `Print the code, the severity and the meaning of each finding of validate, render, config check,
the admission policies, the webhook and doctor. With a CODE, print also which component enforces
the rule, and the identifier of the rule in the output of render -o explain.`,
		Example: "  dnsconfigurer rules\n  dnsconfigurer rules fqdn-too-long",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage.Errorf("want one CODE, got %d arguments", len(args))
			}
			return cli.WriteRules(cmd.OutOrStdout(), strings.Join(args, ""))
		},
	}
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print defaults of configuration files, and check files",
		Args:  cobra.ArbitraryArgs,
		RunE:  usage.RequireCommand,
	}
	cmd.AddCommand(configDefaultsCommand(), configCheckCommand())
	return cmd
}

func configDefaultsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "defaults KIND",
		Short: "Print a configuration file with every field at its default",
		Long: "Print a configuration file with every field at its default, and comments. KIND is:\n\n  " +
			strings.Join(v1alpha1.Kinds(), "\n  "),
		Example:   "  dnsconfigurer config defaults " + v1alpha1.KindShim + " > shim.yaml",
		ValidArgs: v1alpha1.Kinds(),
		Args:      usage.OneArgument("KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := v1alpha1.Defaults(args[0])
			if err != nil {
				return usage.Error{Err: err}
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

func configCheckCommand() *cobra.Command {
	o := cli.CheckOptions{}
	cmd := &cobra.Command{
		Use:   "check FILE|-",
		Short: "Check a configuration file of dnsconfigurer or of a kubelet",
		Long: `Check a configuration file for unknown fields, invalid values and missing fields. It reports a
missing field even if a flag of the server sets it. With - it reads standard input.

FILE may also be a ConfigMap, such as those of deploy/. Each configuration file in its data is
checked as with --no-files, because the paths in the file are those of a container. Of a Corefile,
alone or in a ConfigMap, it reports what CoreDNS refuses.

The files that the configuration names are checked, too, such as sockets, credentials and the
host's resolv.conf. With --no-files they are not, and fields may be missing: for files of another
machine, and for servers with flags.

Exit code 1 if the file or the resolv.conf has errors.`,
		Example: `  dnsconfigurer config check /etc/dnsconfigurer/shim.yaml
  dnsconfigurer config check deploy/cluster-dns/config.yaml
  kubectl -n kube-system get configmap dnsconfigurer-dns -o yaml | dnsconfigurer config check -
  dnsconfigurer config check /var/lib/kubelet/config.yaml -o json`,
		Args: usage.OneArgument("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return exitError(o.Run(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	o.Register(cmd.Flags())
	return interruptible(cmd)
}
