// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

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
ConfigMap, ServiceAccount, Namespace and PodDisruptionBudget; and the objects that flags need, such
as the permission to read StatefulSets unless --scale=false is set, or a Certificate.

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
	o.Register(cmd.Flags())
	return cmd
}
