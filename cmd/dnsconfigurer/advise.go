// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const adviseHelp = `Read what the node caches and the cluster DNS servers of dnsconfigurer have counted by client,
and print for each workload what it wastes on DNS, and the changes that save queries. Figures are
extrapolated to a day.

The servers keep the counts for 12 to 24 hours. With "clientStatistics: names" in their
configuration they also know the names that are asked for most often.

It changes nothing. It lists pods, and forwards a port of each server's pod: permissions list of
pods, and create of pods/portforward. With --before it prints what the same workloads asked then.

Exit code 1: no server could be read, or the command failed.`

// adviseTimeout is the time for all servers, each of which has ten seconds.
const adviseTimeout = 2 * time.Minute

func adviseCommand() *cobra.Command {
	var kubeconfig, kubeContext, namespace, format, before string
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Find what workloads waste on DNS, and the change that saves it",
		Long:  adviseHelp,
		Example: `  dnsconfigurer advise
  dnsconfigurer advise -n shop -o json > before.json
  dnsconfigurer advise -n shop --before before.json`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var earlier v1alpha1.AdviseResult
			if before != "" {
				if earlier, err = cli.ReadAdvice(before); err != nil {
					return err
				}
			}
			c := gather.Config{MaxObjects: gather.MaxObjects}
			c.Scope.Namespace = namespace
			if c.API, err = cluster.LoadUserConfig(kubeconfig, kubeContext, "dnsconfigurer-advise/"+version()); err != nil {
				return err
			}
			c.API.QPS = -1 // at most 16 requests at a time
			ctx, cancel := context.WithTimeout(cmd.Context(), adviseTimeout)
			defer cancel()
			sources, pods, notRead, err := gather.Clients(ctx, c)
			if err != nil {
				return err
			}
			if len(sources)+len(notRead) == 0 {
				return errors.New("the cluster has no pods of dnsconfigurer's DNS servers: docs/dns.md has their installation")
			}
			result := doctor.Advise(sources, pods)
			result.NotRead = append([]string{}, notRead...)
			err = cli.WriteAdvice(cmd.OutOrStdout(), format, result, earlier)
			return exitError(len(sources) > 0, err)
		},
	}
	flags := cmd.Flags()
	usage.ClusterFlags(flags, &kubeconfig, &kubeContext)
	flags.StringVarP(&namespace, "namespace", "n", "", "print workloads of this `NAMESPACE`; empty: all")
	flags.StringVar(&before, "before", "", "`FILE` with the output of an earlier advise -o json, to compare with")
	usage.ChoiceFlag(flags, &format, "output", "o", "`FORMAT`: text or json", cli.AdviseFormats...)
	return interruptible(cmd)
}
