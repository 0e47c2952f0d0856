// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/conformance"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor"
	"github.com/dnsconfigurer/dnsconfigurer/internal/doctor/gather"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

const doctorHelp = `Read the objects of a live cluster, query its DNS servers, and print what is wrong: the
object, the evidence, the cause and the next command. Without --ephemeral-container it changes
nothing in the cluster.

The DNS servers are the addresses of the DNS Service and its endpoints, or those of
--dns-server. From outside the cluster they are often unreachable: run doctor in a pod or on
a node, or use --ephemeral-container.

docs/debugging.md lists the checks and the permissions.

Exit code 1: there is a finding of severity error, or the command failed, for example because
the API server cannot be reached or the pod of --pod is not found.`

func doctorCommand() *cobra.Command {
	o, format := gather.Options{}, ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the DNS of a cluster, with evidence",
		Long:  doctorHelp,
		Example: `  dnsconfigurer doctor
  dnsconfigurer doctor --context staging -o html > dns.html
  dnsconfigurer doctor --pod shop/web-0 --ephemeral-container registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer doctor --dns-server 10.96.0.10`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.Parse()
			if err != nil {
				return err
			}
			if c.API, err = cluster.LoadUserConfig(o.Kubeconfig, o.Context, "dnsconfigurer-doctor/"+version()); err != nil {
				return err
			}
			// No limit: doctor lists one kind after the other, and waits for at most 16 kubelets at a time.
			c.API.QPS = -1
			klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the result reports these errors as not checked
			ctx, cancel := context.WithTimeout(cmd.Context(), c.Timeout)
			defer cancel()
			s, err := gather.All(ctx, c)
			if err != nil {
				return err
			}
			result := doctor.Run(ctx, s)
			err = cli.WriteDoctor(cmd.OutOrStdout(), format, result,
				"API server "+strings.TrimSuffix(c.API.Host+", context "+o.Context, ", context "),
				time.Now().UTC().Format(time.DateTime)+" UTC", "dnsconfigurer "+version())
			return exitError(!doctor.HasErrors(result), err)
		},
	}
	o.Register(cmd.Flags())
	usage.ChoiceFlag(cmd.Flags(), &format, "output", "o", "`FORMAT`: text, json or html", "text", "json", "html")
	cmd.AddCommand(doctorQueryCommand())
	return interruptible(cmd)
}

// doctorQueryCommand returns the command that runs in the container of --ephemeral-container.
func doctorQueryCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "query PROTOCOL,SERVER,TYPE,NAME...",
		Short:  "Print /etc/resolv.conf and the replies to DNS queries as lines of JSON",
		Hidden: true, // --ephemeral-container calls it; users run lookup
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > doctor.MaxContainerQueries {
				return usage.Errorf("want 1 to %d queries, got %d", doctor.MaxContainerQueries, len(args))
			}
			plan := make([]doctor.Query, len(args))
			for i, text := range args {
				var err error
				if plan[i], err = doctor.ParseQuery(text); err != nil {
					return usage.Errorf("%w", err)
				}
			}
			lines := json.NewEncoder(cmd.OutOrStdout())
			if err := lines.Encode(gather.ReadFile("/etc/resolv.conf")); err != nil {
				return err
			}
			for _, p := range gather.Run(cmd.Context(), plan) {
				if err := lines.Encode(p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

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
	usage.ChoiceFlag(flags, &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	return interruptible(cmd)
}

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
	usage.ChoiceFlag(flags, &format, "output", "o", "`FORMAT`: text or json", "text", "json")
	return interruptible(cmd)
}
