// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	admissionserver "github.com/dnsconfigurer/dnsconfigurer/internal/admission/server"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
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

The rules are those of "dnsconfigurer validate". "dnsconfigurer webhook manifests"
prints the objects that register the webhook in a cluster.

When a StatefulSet is scaled, the webhook reads it from the API server. Without access to the
API server, scaling is admitted unchecked.

The certificate is read again when its files change. With --self-signed the replicas
issue it, and write their CA certificate to the webhook configurations.

Flags override the configuration file. It is read again when it changes, and at once on
SIGHUP. If it is invalid, the webhook keeps the previous one.`,
		Example: `  dnsconfigurer webhook --tls-cert /tls/tls.crt --tls-key /tls/tls.key --http :9153
  dnsconfigurer webhook --config /etc/dnsconfigurer/webhook.yaml
  dnsconfigurer webhook manifests --cert-manager-issuer selfsigned | kubectl apply -f -`,
		Args: usage.NoArguments,
	}
	cmd.AddCommand(interruptible(webhookManifestsCommand()))
	source := config.WebhookFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := daemon.Load(cmd.Context(), source)
		if err != nil {
			return err
		}
		return daemon.Serve(cmd.ErrOrStderr(), c.LogFormat, version(), func(p daemon.Process) error {
			server := admissionserver.Server{Source: source, Reload: p.Reload, Version: version(), Log: p.Log}
			return server.Run(cmd.Context(), c)
		})
	}
	return cmd
}
