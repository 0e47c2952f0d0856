// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/lookup"
	"github.com/dnsconfigurer/dnsconfigurer/internal/nodefacts"

	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

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
		if o.Live() {
			err := usage.CheckUnset(cmd, "on a live cluster: leave it out, or set -f instead of --kubeconfig and --context",
				"recursive", "complete")
			if err != nil {
				return err
			}
		}
		node, err := lookupNode(cmd.Context(), &o, &nodeFlags, &c)
		if err != nil {
			return err
		}
		return exitError(o.Run(cmd.Context(), c, node, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
	}
	return interruptible(cmd)
}

// lookupNode returns the node of the pod. For a live cluster, it also stores the cluster's objects in c.
func lookupNode(ctx context.Context, o *lookup.Options, flags *nodefacts.Flags, c *lookup.Config) (nodefacts.Node, error) {
	if o.Live() {
		return lookup.Node(ctx, o, flags, "dnsconfigurer-lookup/"+version(), c)
	}
	return flags.Load()
}
