// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

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

FILE may also have ConfigMaps, such as the output of helm template. Each configuration file in
their data is checked as with --no-files, because the paths in the file are those of a container.
Of a Corefile, alone or in a ConfigMap, it reports what CoreDNS refuses.

The files that the configuration names are checked, too, such as sockets, credentials and the
host's resolv.conf. With --no-files they are not, and fields may be missing: for files of another
machine, and for servers with flags.

Exit code 1 if the file or the resolv.conf has errors.`,
		Example: `  dnsconfigurer config check /etc/dnsconfigurer/shim.yaml
  helm template CHART -f values.yaml | dnsconfigurer config check -
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

func policiesCommand() *cobra.Command {
	c := admission.PolicyConfig{}
	cmd := &cobra.Command{
		Use:   "policies [--cluster-domain DOMAIN] [--cluster-dns IP,..]",
		Short: "Print the admission policies that validate the DNS of pods",
		Long: `Print the ValidatingAdmissionPolicies and their bindings, for Kubernetes 1.35 and later. The
rules are those of "dnsconfigurer validate"; docs/checks.md lists them.

--cluster-domain and --cluster-dns are clusterDomain and clusterDNS of the kubelets. Without
--cluster-domain no rule checks the length of an FQDN. Without --cluster-dns no rule counts or
compares the nameservers of the cluster.`,
		Example: `  dnsconfigurer policies --cluster-domain cluster.local --cluster-dns 10.96.0.10 > policies.yaml
  dnsconfigurer policies | kubectl delete -f -`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := c.YAML()
			if err != nil {
				return usage.Error{Err: err}
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown")
	flags.StringSliceVar(&c.ClusterDNS, "cluster-dns", nil, "`IP,..` of the cluster DNS; empty: unknown")
	flags.StringSliceVar(&c.AllowedOverrides, "allowed-overrides", nil,
		"`POLICY,..` of node.allowedOverrides of agents and shims, in addition to ClusterFirstWithAutopath; empty: none")
	flags.StringSliceVar(&c.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not checked, in addition to kube-system")
	return cmd
}

func importCorefileCommand() *cobra.Command {
	var o cli.ImportOptions
	cmd := &cobra.Command{
		Use:   "import-corefile FILE|-",
		Short: "Convert a Corefile to a DNSConfiguration or NodeCacheConfiguration",
		Long: `Convert the Corefile of a cluster's CoreDNS to a DNSConfiguration, the file of "dns", and that of
NodeLocal DNSCache to a NodeCacheConfiguration, the file of "nodecache". FILE is a Corefile, with
the files that it imports, or YAML with its ConfigMap and the ConfigMaps that it imports.

What is different without CoreDNS is written to standard error, with its place. Exit code 1: some
queries would get other answers, or CoreDNS 1.15 refuses the Corefile, except for what
earlier versions had.

--check runs CoreDNS and this server with both files on the loopback interface, sends them the
same questions, at most 2400, and prints those with different answers. Exit code 1: there is one.
Questions that a file forwards go to its upstream servers. Names of the cluster are not compared,
except those of Services that are in the Corefile.`,
		Example: `  dnsconfigurer import-corefile Corefile > dns.yaml
  kubectl get configmap -n kube-system coredns -o yaml | dnsconfigurer import-corefile -`,
		Args: usage.OneArgument("FILE"),
	}
	cmd.Flags().StringArrayVar(&o.Variables, "set", nil, "`NAME=VALUE` of a {$NAME} or __PILLAR__NAME__ in the Corefile; repeatable")
	cmd.Flags().StringVar(&o.Check, "check", "", "`PROGRAM` of CoreDNS to compare the answers with")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return exitError(o.Run(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
	}
	return interruptible(cmd)
}
