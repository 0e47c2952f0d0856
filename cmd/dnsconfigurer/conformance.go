// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/conformance"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const conformanceHelp = `Query a cluster DNS server, of any vendor, for what the Kubernetes DNS specification 1.1.0,
RFC 8906 and the C libraries require, and print for each requirement how many replies were right.

At most 250 questions are made from the Services, EndpointSlices and Namespaces of the cluster, 25
more test the protocol. The command lists these objects and sends queries; it changes nothing. The
address of the Service is often unreachable from outside the cluster: run it in a pod or on a node.

Exit code 1: a requirement of level MUST is not met, or the command failed.`

// conformanceTimeout is the time for reading the cluster and for all questions to a server that drops many.
const conformanceTimeout = 5 * time.Minute

func conformanceCommand() *cobra.Command {
	var kubeconfig, kubeContext, format, server, domain string
	cmd := &cobra.Command{
		Use:   "conformance --server IP[:PORT]",
		Short: "Test a cluster DNS server against the specification, RFC 8906 and the C libraries",
		Long:  conformanceHelp,
		Example: `  dnsconfigurer conformance --server 10.96.0.10
  dnsconfigurer conformance --server 10.96.0.10 -o json`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addr, err := gather.ParseServer("--server", server)
			if err != nil {
				return err
			}
			c := gather.Config{MaxObjects: gather.MaxObjects}
			c.Scope.Namespace = "default" // of pods, which have no names that the specification requires
			if c.API, err = cluster.LoadUserConfig(kubeconfig, kubeContext, "dnsconfigurer-conformance/"+version()); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), conformanceTimeout)
			defer cancel()
			result, err := conformance.Run(ctx, addr, func(ctx context.Context) (conformance.Cluster, error) {
				s, err := gather.Names(ctx, c)
				if err != nil {
					return conformance.Cluster{}, err
				}
				_, kubeletDomain := gather.KubeletFacts(s)
				domain := cmp.Or(domain, kubeletDomain, "cluster.local")
				return conformance.Cluster{Domain: domain, Namespaces: s.Namespaces, Services: s.Services, Slices: s.Slices}, nil
			})
			if err != nil {
				return err
			}
			failed := func(r v1alpha1.ConformanceRule) bool { return r.Level == conformance.Must && r.Failed > 0 }
			return exitError(!slices.ContainsFunc(result.Rules, failed), cli.WriteConformance(cmd.OutOrStdout(), format, result))
		},
	}
	flags := cmd.Flags()
	usage.ClusterFlags(flags, &kubeconfig, &kubeContext)
	flags.StringVar(&server, "server", "", "`IP[:PORT]` of the server")
	flags.StringVar(&domain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: as in the ConfigMap kubelet-config, or cluster.local")
	usage.ChoiceFlag(flags, &format, "output", "o", "`FORMAT`: text or json", cli.ConformanceFormats...)
	return interruptible(cmd)
}
