// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/manifests"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func webhookManifestsCommand() *cobra.Command {
	m := webhookManifestsFlags{}
	cmd := &cobra.Command{
		Use:   "manifests --self-signed|--cert-manager-issuer NAME|--ca-file FILE",
		Short: "Print the objects that run and register the admission webhook",
		Long: `Print the objects that run and register the admission webhook in a cluster: the
ValidatingWebhookConfiguration and MutatingWebhookConfiguration; the Deployment, Service,
ConfigMap, ServiceAccount, Namespace and PodDisruptionBudget; and unless --scale=false the
permission to read StatefulSets, to validate their scale.

With --self-signed the server issues its certificate. With --cert-manager-issuer
cert-manager issues it. With --ca-file you issue it: FILE has the CA certificate, and you
create the Secret dnsconfigurer-webhook-tls with tls.key and tls.crt, for the name
dnsconfigurer-webhook.NAMESPACE.svc.`,
		Example: `  dnsconfigurer webhook manifests --self-signed --image registry.example/dnsconfigurer:v0.1.0 | kubectl apply -f -
  dnsconfigurer webhook manifests --cert-manager-issuer ClusterIssuer/internal --image registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer webhook manifests --ca-file ca.crt --cluster-domain corp.example > webhook.yaml
  dnsconfigurer webhook manifests --self-signed --api-server-cidr 192.0.2.0/29 | kubectl apply -f -
  dnsconfigurer webhook manifests --ca-file ca.crt --mutating=false`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVarP(&m.config.Namespace, "namespace", "n", v1alpha1.DefaultWebhookNamespace, "`NAMESPACE` of the server")
	f.StringVar(&m.config.Image, "image", "registry.example/dnsconfigurer:v0.1.0", "`IMAGE` of the server; none is published yet")
	f.StringSliceVar(&m.config.ClusterDNS, "cluster-dns", nil, "`IP,..` of the cluster DNS; empty: unknown, no rule counts them")
	f.StringVar(&m.config.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown, no rule checks the length of an FQDN")
	f.StringVar(&m.issuer, "cert-manager-issuer", "", "`[KIND/]NAME` of cert-manager's issuer for the certificate; KIND is Issuer or ClusterIssuer")
	f.StringVar(&m.caFile, "ca-file", "", "`FILE` with the CA certificate, PEM")
	f.BoolVar(&m.config.SelfSigned, "self-signed", false, "the server issues its certificate, with a CA that it creates")
	f.BoolVar(&m.config.Mutating, "mutating", true, "write the MutatingWebhookConfiguration; not needed with a MutatingAdmissionPolicy (Kubernetes 1.36)")
	f.StringSliceVar(&m.cidrs, "api-server-cidr", nil, "`CIDR,..` of the API servers: write a NetworkPolicy that accepts reviews only from them; empty: none")
	f.BoolVar(&m.config.Scale, "scale", true, "validate the scale of StatefulSets; the server reads them from the API server")
	return cmd
}

// webhookManifestsFlags are the flags of the command.
type webhookManifestsFlags struct {
	config         manifests.Config
	issuer, caFile string
	cidrs          []string
}

func (m *webhookManifestsFlags) run(cmd *cobra.Command) error {
	if err := m.check(); err != nil {
		return usageError{err}
	}
	if m.caFile != "" {
		pem, err := os.ReadFile(m.caFile)
		if err != nil {
			return fmt.Errorf("reading the CA certificate: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: no PEM certificate found", m.caFile)
		}
		m.config.CABundle = pem
	}
	text, err := m.config.YAML()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

// check validates the flags, and sets the kind and name of the issuer.
func (m *webhookManifestsFlags) check() error {
	var problems []error
	check := func(ok bool, flag, value, want string) {
		if !ok {
			problems = append(problems, fmt.Errorf("--%s: %q: want %s", flag, value, want))
		}
	}
	c := &m.config
	check(fqdn.LabelProblems(c.Namespace) == nil, "namespace", c.Namespace, "a DNS label")
	check(c.Image != "" && !strings.ContainsAny(c.Image, " \n\"'#{}[],"), "image", c.Image, "an image such as registry.example/dnsconfigurer:v0.1.0")
	check(c.ClusterDomain == "" || fqdn.SubdomainProblems(c.ClusterDomain) == nil, "cluster-domain", c.ClusterDomain, "a domain such as cluster.local")
	for _, s := range c.ClusterDNS {
		_, err := netip.ParseAddr(s)
		check(err == nil, "cluster-dns", s, "an IP address")
	}
	for _, s := range m.cidrs {
		p, err := netip.ParsePrefix(s)
		check(err == nil && p == p.Masked(), "api-server-cidr", s, "a network such as 192.0.2.0/24")
		c.APIServerCIDRs = append(c.APIServerCIDRs, p)
	}
	kind, name, slash := strings.Cut(m.issuer, "/")
	if !slash {
		kind, name = "Issuer", m.issuer
	}
	check(m.issuer == "" || slices.Contains([]string{"Issuer", "ClusterIssuer"}, kind) && fqdn.SubdomainProblems(name) == nil,
		"cert-manager-issuer", m.issuer, "NAME, Issuer/NAME or ClusterIssuer/NAME")
	c.IssuerKind, c.IssuerName = kind, name
	sources := 0
	for _, set := range []bool{m.issuer != "", m.caFile != "", c.SelfSigned} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		problems = append(problems, fmt.Errorf("want one source of the certificate, got %d: set one of --cert-manager-issuer, --ca-file and --self-signed", sources))
	}
	return errors.Join(problems...)
}
