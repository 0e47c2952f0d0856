// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/manifests"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func webhookManifestsCommand() *cobra.Command {
	o := manifests.Options{}
	cmd := &cobra.Command{
		Use:   "manifests --self-signed|--cert-manager-issuer NAME|--ca-file FILE",
		Short: "Print the objects that run and register the admission webhook",
		Long: `Print the objects that run and register the admission webhook in a cluster: the
ValidatingWebhookConfiguration and MutatingWebhookConfiguration; the Deployment, Service,
ConfigMap, ServiceAccount, Namespace and PodDisruptionBudget; and unless --scale=false the
permission to read StatefulSets, to validate their scale.

In a namespace that other objects use, set --create-namespace=false. Otherwise "kubectl delete"
of the output deletes the namespace with everything in it.

With --self-signed the server issues its certificate. With --cert-manager-issuer
cert-manager issues it. With --ca-file you issue it: FILE has the CA certificate, and you
create the Secret dnsconfigurer-webhook-tls with tls.key and tls.crt, for the name
dnsconfigurer-webhook.NAMESPACE.svc.`,
		Example: `  dnsconfigurer webhook manifests --self-signed --image registry.example/dnsconfigurer:v0.1.0 | \
    kubectl apply -f -
  dnsconfigurer webhook manifests --cert-manager-issuer ClusterIssuer/internal \
    --image registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer webhook manifests --ca-file ca.crt --cluster-domain corp.example > webhook.yaml
  dnsconfigurer webhook manifests --self-signed --api-server-cidr 192.0.2.0/29 | kubectl apply -f -
  dnsconfigurer webhook manifests --ca-file ca.crt --mutating=false`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.Parse()
			if err != nil {
				return usage.Error{Err: err}
			}
			if o.CAFile != "" {
				if err := c.LoadBundle(o.CAFile); err != nil {
					return err
				}
			}
			text, err := c.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Namespace, "namespace", "n", v1alpha1.DefaultWebhookNamespace, "`NAMESPACE` of the server")
	f.BoolVar(&o.CreateNamespace, "create-namespace", true,
		"print the Namespace, too; false keeps kubectl delete from deleting one that has other objects")
	f.StringSliceVar(&o.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not reviewed; empty: only kube-system and the server's, which are always among them")
	f.StringVar(&o.Image, "image", "registry.example/dnsconfigurer:v0.1.0", "`IMAGE` of the server; no image is published yet")
	f.StringSliceVar(&o.ClusterDNS, "cluster-dns", nil,
		"`IP,..` of the cluster DNS; empty: unknown, they do not count for the limit of nameservers")
	f.StringVar(&o.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown, no rule checks the length of an FQDN")
	f.StringVar(&o.Issuer, "cert-manager-issuer", "",
		"`[KIND/]NAME` of cert-manager's issuer for the certificate; KIND is Issuer or ClusterIssuer")
	f.StringVar(&o.CAFile, "ca-file", "", "`FILE` with the CA certificate, PEM")
	f.BoolVar(&o.SelfSigned, "self-signed", false, "the server issues its certificate, with a CA that it creates")
	f.BoolVar(&o.Mutating, "mutating", true,
		"write the MutatingWebhookConfiguration; not needed with a MutatingAdmissionPolicy (Kubernetes 1.36)")
	f.StringSliceVar(&o.APIServerCIDRs, "api-server-cidr", nil,
		"`CIDR,..` of the API servers: write a NetworkPolicy that accepts reviews only from them; empty: none")
	f.BoolVar(&o.Scale, "scale", true, "validate the scale of StatefulSets; the server reads them from the API server")
	return cmd
}
