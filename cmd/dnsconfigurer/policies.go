// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/policies"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func policiesCommand() *cobra.Command {
	o, clusterCheck, check := policies.Options{}, policies.ClusterCheck{}, false
	cmd := &cobra.Command{
		Use:   "policies [--cluster-domain DOMAIN] [--cluster-dns IP,..]",
		Short: "Print or check the admission policies that validate the DNS of pods",
		Long: `Print the ValidatingAdmissionPolicies and their bindings, for Kubernetes 1.35 and later. The
rules are those of "dnsconfigurer validate"; docs/checks.md lists them.

--cluster-domain and --cluster-dns are clusterDomain and clusterDNS of the kubelets. Without
--cluster-domain no rule checks the length of an FQDN. Without --cluster-dns the rules that
count or compare the nameservers of the cluster are left out. --allowed-overrides is
node.allowedOverrides of the agents and shims.

With --check the command creates a known-bad Pod, ReplicaSet and Job in --namespace as a dry
run, and prints which bindings denied each of them or warned of it. Exit code 1: no binding denied
or warned of any of the three, or the API server refused an object for another reason.`,
		Example: `  dnsconfigurer policies --cluster-domain cluster.local --cluster-dns 10.96.0.10 > policies.yaml
  dnsconfigurer policies --check
  dnsconfigurer policies | kubectl delete -f -`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check {
				err := usage.CheckUnset(cmd, "with --check: leave it out",
					"cluster-domain", "cluster-dns", "allowed-overrides", "exclude-namespace")
				if err != nil {
					return err
				}
				return clusterCheck.Run(cmd.Context(), "dnsconfigurer/"+version(), cmd.OutOrStdout())
			}
			if err := usage.CheckUnset(cmd, "without --check: leave it out, or set --check", "kubeconfig", "namespace"); err != nil {
				return err
			}
			c, err := o.Parse()
			if err != nil {
				return usage.Error{Err: err}
			}
			text, err := c.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	o.Register(cmd.Flags())
	clusterCheck.Register(cmd.Flags())
	cmd.Flags().BoolVar(&check, "check", false, "report what a cluster enforces, instead of printing the policies")
	return cmd
}
