// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Options are a Config with values in the text form of flags.
type Options struct {
	Config // without the issuer, the bundle, the networks and NamespaceExists

	CreateNamespace bool // write the Namespace

	Issuer         string   // of cert-manager, NAME or KIND/NAME; "": none
	CAFile         string   // with a PEM bundle; "": none
	APIServerCIDRs []string // none: from everywhere
}

// Register adds the flags.
func (o *Options) Register(flags *pflag.FlagSet) {
	flags.StringVarP(&o.Namespace, "namespace", "n", "dnsconfigurer", "`NAMESPACE` of the server")
	flags.BoolVar(&o.CreateNamespace, "create-namespace", true,
		"print the Namespace, too; false keeps kubectl delete from deleting one that has other objects")
	flags.StringSliceVar(&o.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not reviewed, in addition to kube-system and the namespace of the server")
	flags.StringVar(&o.Image, "image", "registry.example/dnsconfigurer:v0.1.0", "`IMAGE` of the server; no image is published yet")
	flags.StringSliceVar(&o.ClusterDNS, "cluster-dns", nil,
		"`IP,..` of the cluster DNS; empty: unknown, the limit of nameservers is checked without them")
	flags.StringVar(&o.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown, no rule checks the length of an FQDN")
	flags.StringVar(&o.Issuer, "cert-manager-issuer", "",
		"`[KIND/]NAME` of cert-manager's issuer for the certificate; KIND is Issuer or ClusterIssuer")
	flags.StringVar(&o.CAFile, "ca-file", "", "`FILE` with the CA certificate, PEM")
	flags.BoolVar(&o.Mutating, "mutating", true,
		"write the MutatingWebhookConfiguration; not needed with a MutatingAdmissionPolicy (Kubernetes 1.36)")
	flags.StringSliceVar(&o.APIServerCIDRs, "api-server-cidr", nil,
		"`CIDR,..` of the API servers: write a NetworkPolicy that accepts reviews only from them; empty: none")
	flags.BoolVar(&o.Scale, "scale", true, "validate the scale of StatefulSets; the server reads them from the API server")
}

// Parse returns the Config of o. The error joins one error for each invalid option.
func (o Options) Parse() (Config, error) {
	c := o.Config
	c.NamespaceExists = !o.CreateNamespace
	p := problems{}
	p.want(fqdn.LabelProblems(c.Namespace) == nil, "namespace", c.Namespace, "a DNS label")
	p.want(c.Image != "" && !strings.ContainsAny(c.Image, " \n\"'#{}[],"),
		"image", c.Image, "an image such as registry.example/dnsconfigurer:v0.1.0")
	p.want(c.ClusterDomain == "" || fqdn.SubdomainProblems(c.ClusterDomain) == nil,
		"cluster-domain", c.ClusterDomain, "a domain such as cluster.local")
	for _, s := range c.ExcludedNamespaces {
		p.want(fqdn.LabelProblems(s) == nil, "exclude-namespace", s, "the name of a namespace")
	}
	for _, s := range c.ClusterDNS {
		_, err := netip.ParseAddr(s)
		p.want(err == nil, "cluster-dns", s, "an IP address")
	}
	for _, s := range o.APIServerCIDRs {
		network, err := netip.ParsePrefix(s)
		p.want(err == nil && network == network.Masked(), "api-server-cidr", s, "a network such as 192.0.2.0/24")
		c.APIServerCIDRs = append(c.APIServerCIDRs, network)
	}
	var ok bool
	c.IssuerKind, c.IssuerName, ok = parseIssuer(o.Issuer)
	p.want(ok, "cert-manager-issuer", o.Issuer, "NAME, Issuer/NAME or ClusterIssuer/NAME")
	if (o.Issuer == "") == (o.CAFile == "") {
		p = append(p, errors.New("want one source of the certificate: set --cert-manager-issuer or --ca-file"))
	}
	return c, errors.Join(p...)
}

// problems are the errors of options.
type problems []error

func (p *problems) want(ok bool, flag, value, want string) {
	if !ok {
		*p = append(*p, fmt.Errorf("--%s: %q: want %s", flag, value, want))
	}
}

// parseIssuer parses "", NAME or KIND/NAME.
func parseIssuer(text string) (kind, name string, ok bool) {
	kind, name, slash := strings.Cut(text, "/")
	if !slash {
		kind, name = "Issuer", text
	}
	known := kind == "Issuer" || kind == "ClusterIssuer"
	return kind, name, text == "" || known && fqdn.SubdomainProblems(name) == nil
}

// LoadBundle reads the CA certificates of c from a PEM file.
func (c *Config) LoadBundle(path string) error {
	pem, err := readBundle(path)
	if err != nil {
		return fmt.Errorf("reading the CA certificate: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s: no PEM certificate found", path)
	}
	c.CABundle = pem
	return nil
}

// maxBundle is the maximum size of the CA certificates in bytes. etcd stores 1.5 MB for the
// configuration with them.
const maxBundle = 1 << 20

func readBundle(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pem, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err == nil && len(pem) > maxBundle {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxBundle)
	}
	return pem, err
}
