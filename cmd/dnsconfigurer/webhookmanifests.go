// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

//go:embed webhookmanifests/*.yaml
var webhookTemplates embed.FS

func webhookManifestsCommand() *cobra.Command {
	m := webhookManifests{}
	cmd := &cobra.Command{
		Use:   "manifests --self-signed|--cert-manager-issuer NAME|--ca-file FILE",
		Short: "Write the objects with which a cluster asks the admission webhook",
		Long: `Write the objects with which a cluster runs and asks the admission webhook: the
ValidatingWebhookConfiguration and MutatingWebhookConfiguration, and the Deployment,
Service, ConfigMap, ServiceAccount, Namespace and PodDisruptionBudget behind them; and
the right to read StatefulSets, whose scale is judged, unless --scale=false.

With --self-signed the servers make their certificate. With --cert-manager-issuer it is
cert-manager's. Or it is yours: then
--ca-file is the authority that the API server is to trust, and the Secret
dnsconfigurer-webhook-tls has tls.crt, for the name dnsconfigurer-webhook.NAMESPACE.svc,
and tls.key.`,
		Example: `  dnsconfigurer webhook manifests --self-signed --image registry.example/dnsconfigurer:v0.1.0 | kubectl apply -f -
  dnsconfigurer webhook manifests --cert-manager-issuer ClusterIssuer/internal --image registry.example/dnsconfigurer:v0.1.0
  dnsconfigurer webhook manifests --ca-file ca.crt --cluster-domain corp.example > webhook.yaml
  dnsconfigurer webhook manifests --ca-file ca.crt --mutating=false`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return m.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVarP(&m.namespace, "namespace", "n", "dnsconfigurer", "`NAMESPACE` of the server")
	f.StringVar(&m.image, "image", "registry.example/dnsconfigurer:v0.1.0", "`IMAGE` of the server; none is published yet")
	f.StringSliceVar(&m.clusterDNS, "cluster-dns", []string{"10.96.0.10"}, "`IP,..` of the cluster's DNS")
	f.StringVar(&m.clusterDomain, "cluster-domain", "cluster.local", "`DOMAIN` of the cluster")
	f.StringVar(&m.issuer, "cert-manager-issuer", "", "`[KIND/]NAME` of cert-manager's issuer for the certificate; KIND is Issuer or ClusterIssuer")
	f.StringVar(&m.caFile, "ca-file", "", "`FILE` with the certificate's authority, PEM")
	f.BoolVar(&m.selfSigned, "self-signed", false, "the server makes its certificate, and an authority of its own")
	f.BoolVar(&m.mutating, "mutating", true, "write the MutatingWebhookConfiguration; not needed beside a MutatingAdmissionPolicy (Kubernetes 1.36)")
	f.BoolVar(&m.scale, "scale", true, "judge the scale of StatefulSets, for which the server reads them")
	return cmd
}

// webhookManifests are what a command line says about the objects.
type webhookManifests struct {
	namespace, image, clusterDomain, issuer, caFile string
	clusterDNS                                      []string
	mutating, selfSigned, scale                     bool
}

func (m *webhookManifests) run(cmd *cobra.Command) error {
	if err := m.check(); err != nil {
		return usageError{err}
	}
	// One after another the files are a stream of documents.
	files, trust, bundle := []string{"server"}, "cert-manager", ""
	switch {
	case m.selfSigned:
		files, trust = append(files, "rights"), "self-signed"
	case m.issuer != "":
		files = append(files, "certificate")
	default:
		pem, err := os.ReadFile(m.caFile)
		if err != nil {
			return fmt.Errorf("reading the authority: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s: has no certificate in PEM", m.caFile)
		}
		trust, bundle = "ca-file", base64.StdEncoding.EncodeToString(pem)
	}
	files, marks := append(files, "validating"), []string{trust}
	switch {
	case m.scale:
		files = append(files, "scale")
	case !m.selfSigned:
		marks = append(marks, "no-token")
	}
	if m.mutating {
		files = append(files, "mutating")
	}
	kind, name, _ := strings.Cut(m.issuer, "/")
	if name == "" {
		kind, name = "Issuer", kind
	}
	values := strings.NewReplacer(
		"${NAMESPACE}", m.namespace, "${IMAGE}", m.image, "${CLUSTER_DNS}", strings.Join(m.clusterDNS, ", "), "${CLUSTER_DOMAIN}", m.clusterDomain,
		"${ISSUER_KIND}", kind, "${ISSUER_NAME}", name, "${CA_BUNDLE}", bundle,
	)
	var out strings.Builder
	for _, file := range files {
		text, err := webhookTemplates.ReadFile("webhookmanifests/" + file + ".yaml")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			line, only, some := strings.Cut(line, " #? ") // a line that is not always there
			switch {
			case !some:
				out.WriteString(values.Replace(line))
			case slices.ContainsFunc(strings.Split(strings.TrimSpace(only), ","), func(mark string) bool { return slices.Contains(marks, mark) }):
				out.WriteString(values.Replace(line) + "\n")
			}
		}
	}
	_, err := cmd.OutOrStdout().Write([]byte(out.String()))
	return err
}

// check leaves nothing that is no value of its field: what is written is YAML.
func (m *webhookManifests) check() error {
	var problems []error
	check := func(ok bool, flag, value, want string) {
		if !ok {
			problems = append(problems, fmt.Errorf("--%s: %q: want %s", flag, value, want))
		}
	}
	check(fqdn.LabelProblems(m.namespace) == nil, "namespace", m.namespace, "a DNS label")
	check(m.image != "" && !strings.ContainsAny(m.image, " \n\"'#{}[],"), "image", m.image, "an image, as registry.example/dnsconfigurer:v0.1.0")
	check(fqdn.SubdomainProblems(m.clusterDomain) == nil, "cluster-domain", m.clusterDomain, "a domain, as cluster.local")
	for _, s := range m.clusterDNS {
		_, err := netip.ParseAddr(s)
		check(err == nil, "cluster-dns", s, "an IP address")
	}
	kind, name, slash := strings.Cut(m.issuer, "/")
	if !slash {
		kind, name = "Issuer", m.issuer
	}
	check(m.issuer == "" || slices.Contains([]string{"Issuer", "ClusterIssuer"}, kind) && fqdn.SubdomainProblems(name) == nil,
		"cert-manager-issuer", m.issuer, "NAME, Issuer/NAME or ClusterIssuer/NAME")
	ways := 0
	for _, given := range []bool{m.issuer != "", m.caFile != "", m.selfSigned} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		problems = append(problems, errors.New("give one of --cert-manager-issuer, --ca-file and --self-signed: the API server has to know whom to trust"))
	}
	return errors.Join(problems...)
}
