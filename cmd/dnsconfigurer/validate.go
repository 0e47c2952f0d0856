// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
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
each template, such as a Deployment, in YAML or JSON.

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

func lookupCommand() *cobra.Command {
	o, nodeFlags := lookup.Options{}, nodefacts.Flags{}
	cmd := &cobra.Command{
		Use:   "lookup [-f FILE|DIR|-] --pod NAMESPACE/NAME NAME [TYPE]",
		Short: "Simulate the DNS lookup of a program in a pod, and print every query",
		Long: `Simulate the DNS lookup of a program in a pod: compute the pod's resolv.conf, send the
queries of its C library or of Go, and print each query with its reply, the program's result and
the number of queries.

Without a TYPE the program calls getaddrinfo for both address families. With A or AAAA it
calls getaddrinfo for one family. With another TYPE it calls res_search. With --libc go it
calls the functions of package net. The pod is a Pod or a workload of the manifests.

The cluster DNS is simulated with the Services, EndpointSlices and Namespaces of the
manifests. Addresses that the cluster would assign are generated in 198.18.0.0/15 and
2001:2::/48. The result is unknown if the manifests may lack an object that decides it; with
--complete, objects that they lack do not exist. No query leaves this machine unless --upstream
or --server is set.

Without -f the objects are those of the live cluster of kubectl, --kubeconfig or --context. The
command lists them, and changes nothing. Node facts without a flag are then those of the ConfigMap
kubelet-config, or the addresses of the DNS Service.

Without manifests, cluster and --pod the program runs on this machine, with its resolv.conf.

With --compare the lookup is run with ClusterFirst and with ClusterFirstWithAutopath, and
the queries are counted on each hop.

Exit code 1: the program finds nothing, its result is unknown, or with --compare the two
results differ. docs/debugging.md describes the libraries and the limits of the simulation.`,
		Example: `  dnsconfigurer lookup -f examples/ --pod shop/web payments
  dnsconfigurer lookup www.example.com --server 192.0.2.53
  dnsconfigurer lookup -f examples/ --pod shop/web --libc musl db-0.db A -o json
  dnsconfigurer lookup -f examples/ --pod shop/web --compare payments.shop
  dnsconfigurer lookup --context staging --pod shop/web-0 payments
  kubectl get pods,services,endpointslices -A -o yaml | \
    dnsconfigurer lookup -f - --pod shop/web-0 _http._tcp.payments SRV`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usage.Errorf("want NAME [TYPE], got %d arguments", len(args))
			}
			return nil
		},
	}
	o.Register(cmd.Flags())
	nodeFlags.Register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := o.Parse(args)
		if err != nil {
			return err
		}
		load := nodeFlags.Load
		if o.Live() {
			err := usage.CheckUnset(cmd, "on a live cluster: leave it out, or set -f instead of --kubeconfig and --context",
				"recursive", "complete")
			if err != nil {
				return err
			}
			load = func() (nodefacts.Node, error) {
				return lookup.Node(cmd.Context(), &o, &nodeFlags, "dnsconfigurer-lookup/"+version(), &c) // stores the objects in c
			}
		}
		node, err := load()
		if err != nil {
			return err
		}
		return exitError(o.Run(cmd.Context(), c, node, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
	}
	return interruptible(cmd)
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
