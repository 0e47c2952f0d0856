// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func webhookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Run the admission webhook that validates the DNS of pods",
		Long: `Run the admission webhook. It denies pods that would not start, and warns of DNS
settings that the node would truncate. At ` + webhook.PathMutate + ` it replaces the dnsPolicy
ClusterFirstWithAutopath, which the API server would reject, by an annotation and a dnsPolicy
that the API server accepts. From Kubernetes 1.36 on, an admission policy can do this instead.

The rules are those of "dnsconfigurer validate". The Helm chart runs the webhook and registers
it in a cluster.

The certificate is read again when its files change.

Flags override the configuration file. It is read again when it changes, and at once on
SIGHUP. If it is invalid, the webhook keeps the previous one.`,
		Example: `  dnsconfigurer webhook --config /etc/dnsconfigurer/webhook.yaml`,
		Args:    usage.NoArguments,
	}
	source := webhook.Kind().FromFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.Serve(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			server := webhook.Daemon{Source: source, Reload: p.Reload, Version: version(), Log: p.Log}
			return server.Run(cmd.Context(), c)
		})
	}
	return cmd
}

func policiesCommand() *cobra.Command {
	c := admission.PolicyConfig{}
	cmd := &cobra.Command{
		Use:   "policies [--cluster-domain DOMAIN] [--cluster-dns IP,..]",
		Short: "Print the admission policies that validate the DNS of pods",
		Long: `Print the ValidatingAdmissionPolicies and their bindings, for Kubernetes 1.35 and later. The
rules are those of "dnsconfigurer validate"; docs/checks.md lists them.

--cluster-domain and --cluster-dns are clusterDomain and clusterDNS of the kubelets. Without
--cluster-domain no rule checks the length of an FQDN. Without --cluster-dns the rules that
count or compare the nameservers of the cluster are left out. --allowed-overrides is
node.allowedOverrides of the agents and shims.`,
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
		"`POLICY,..` that the nodes allow in the annotation dnsconfigurer.dev/policy, in addition to ClusterFirstWithAutopath; "+
			"empty: no other")
	flags.StringSliceVar(&c.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not checked, in addition to kube-system")
	return cmd
}
