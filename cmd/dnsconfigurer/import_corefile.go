// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

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
