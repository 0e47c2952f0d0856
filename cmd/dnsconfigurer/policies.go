// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/policies"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube/client"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func policiesCommand() *cobra.Command {
	p := policiesFlags{}
	cmd := &cobra.Command{
		Use:   "policies [--cluster-domain DOMAIN] [--cluster-dns IP,..]",
		Short: "Print or check the admission policies that validate the DNS of pods",
		Long: `Print the ValidatingAdmissionPolicies and their bindings, for Kubernetes 1.35 and later. The
rules are those of "dnsconfigurer validate"; docs/admission.md lists them.

--cluster-domain and --cluster-dns are clusterDomain and clusterDNS of the kubelets. Without
--cluster-domain no rule checks the length of an FQDN. Without --cluster-dns the rules that
count or compare the nameservers of the cluster are left out. --allowed-overrides is
node.allowedOverrides of the agents and shims.

With --check the command creates a known-bad Pod, ReplicaSet and Job in --namespace as a dry
run, and prints which policies acted on them. Exit code 1: no policy acted, or the API server
refused an object for another reason.`,
		Example: `  dnsconfigurer policies --cluster-domain cluster.local --cluster-dns 10.96.0.10 > policies.yaml
  dnsconfigurer policies --check
  dnsconfigurer policies | kubectl delete -f -`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&p.options.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown")
	f.StringSliceVar(&p.options.ClusterDNS, "cluster-dns", nil, "`IP,..` of the cluster DNS; empty: unknown")
	f.StringSliceVar(&p.options.AllowedOverrides, "allowed-overrides", nil,
		"`POLICY,..` that the nodes allow in the annotation in addition to ClusterFirstWithAutopath; empty: no other")
	f.StringSliceVar(&p.options.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not checked, like those of kube-system; empty: no other")
	f.BoolVar(&p.check, "check", false, "report what a cluster enforces, instead of printing the policies")
	f.StringVar(&p.kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`, for --check; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account")
	f.StringVarP(&p.namespace, "namespace", "n", "default",
		"`NAMESPACE` of the objects of --check; not kube-system, which the policies skip")
	return cmd
}

type policiesFlags struct {
	options    policies.Options
	check      bool
	kubeconfig string
	namespace  string
}

func (p *policiesFlags) run(cmd *cobra.Command) error {
	if err := p.checkFlags(cmd); err != nil {
		return usage.Error{Err: err}
	}
	if p.check {
		return p.report(cmd)
	}
	c, err := p.options.Parse()
	if err != nil {
		return usage.Error{Err: err}
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// checkFlags returns an error for flags that cannot be combined, and for an invalid namespace.
func (p *policiesFlags) checkFlags(cmd *cobra.Command) error {
	excluded := []string{"kubeconfig", "namespace"} // without --check
	if p.check {
		excluded = []string{"cluster-domain", "cluster-dns", "allowed-overrides", "exclude-namespace"}
	}
	for _, name := range excluded {
		switch changed := cmd.Flags().Changed(name); {
		case changed && p.check:
			return fmt.Errorf("--%s: cannot be combined with --check", name)
		case changed:
			return fmt.Errorf("--%s: only for --check", name)
		}
	}
	if p.check && (fqdn.LabelProblems(p.namespace) != nil || p.namespace == "kube-system") {
		return fmt.Errorf("--namespace: %q: want a namespace other than kube-system", p.namespace)
	}
	return nil
}

// report prints what the cluster does with known-bad objects.
func (p *policiesFlags) report(cmd *cobra.Command) error {
	cfg, err := client.LoadUserConfig(p.kubeconfig, "", "dnsconfigurer/"+version())
	switch {
	case err != nil && p.kubeconfig == "":
		return fmt.Errorf("%w: set --kubeconfig", err)
	case err != nil:
		return err
	}
	outcomes, failed := policies.Check(cmd.Context(), cfg, p.namespace)
	for _, o := range outcomes {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), o); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return failed
}
