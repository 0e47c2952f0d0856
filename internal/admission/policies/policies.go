// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

//go:embed files/policies.yaml.tmpl
var files embed.FS

// Config holds the values of a cluster. Rules that need a missing value are left out, because
// with another value they could deny valid pods.
type Config struct {
	ClusterDomain string       // of the kubelets; "": unknown
	ClusterDNS    []netip.Addr // of the kubelets; none: unknown

	// AllowedOverrides are the policies that the nodes allow in the annotation in addition to
	// ClusterFirstWithAutopath.
	AllowedOverrides []policy.Policy

	// ExcludedNamespaces are the namespaces whose objects are not checked, in addition to
	// kube-system.
	ExcludedNamespaces []string
}

// Options are the values of a Config in the text form of flags, perhaps with blanks around them.
type Options struct {
	ClusterDomain                                    string
	ClusterDNS, AllowedOverrides, ExcludedNamespaces []string
}

// Register adds the flags.
func (o *Options) Register(flags *pflag.FlagSet) {
	flags.StringVar(&o.ClusterDomain, "cluster-domain", "", "`DOMAIN` of the cluster; empty: unknown")
	flags.StringSliceVar(&o.ClusterDNS, "cluster-dns", nil, "`IP,..` of the cluster DNS; empty: unknown")
	flags.StringSliceVar(&o.AllowedOverrides, "allowed-overrides", nil,
		"`POLICY,..` that the nodes allow in the annotation dnsconfigurer.dev/policy, in addition to ClusterFirstWithAutopath; "+
			"empty: no other")
	flags.StringSliceVar(&o.ExcludedNamespaces, "exclude-namespace", nil,
		"`NAMESPACE,..` whose objects are not checked, in addition to kube-system")
}

// Parse returns the Config of o. The error joins one error for each invalid value.
func (o Options) Parse() (Config, error) {
	c := Config{ClusterDomain: strings.TrimSpace(o.ClusterDomain)}
	var problems []error
	if c.ClusterDomain != "" && fqdn.SubdomainProblems(c.ClusterDomain) != nil {
		problems = append(problems, fmt.Errorf("--cluster-domain: %q: want a domain such as cluster.local", o.ClusterDomain))
	}
	for _, s := range o.ClusterDNS {
		a, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil || a.Zone() != "" {
			problems = append(problems, fmt.Errorf("--cluster-dns: %q: want an IP address", s))
			continue
		}
		c.ClusterDNS = append(c.ClusterDNS, a)
	}
	if n := len(c.ClusterDNS); n > policy.MaxNameservers {
		problems = append(problems,
			fmt.Errorf("--cluster-dns: %d addresses: every pod would exceed the limit of %d nameservers", n, policy.MaxNameservers))
	}
	for _, s := range o.AllowedOverrides {
		p := policy.Policy(strings.TrimSpace(s))
		if !slices.Contains(overridable, p) {
			problems = append(problems,
				fmt.Errorf("--allowed-overrides: %q: want Default, ClusterFirst, ClusterFirstWithHostNet or None", s))
			continue
		}
		c.AllowedOverrides = append(c.AllowedOverrides, p)
	}
	for _, s := range o.ExcludedNamespaces {
		namespace := strings.TrimSpace(s)
		if fqdn.LabelProblems(namespace) != nil {
			problems = append(problems, fmt.Errorf("--exclude-namespace: %q: want the name of a namespace", s))
			continue
		}
		c.ExcludedNamespaces = append(c.ExcludedNamespaces, namespace)
	}
	return c, errors.Join(problems...)
}

// overridable are the values of node.allowedOverrides.
var overridable = []policy.Policy{policy.Default, policy.ClusterFirst, policy.ClusterFirstWithHostNet, policy.None}

// YAML returns the policies and their bindings as documents. A policy precedes its bindings:
// `kubectl apply` keeps the order, and a policy must have lost a paramKind of an earlier
// release before its bindings lose their paramRef.
func (c Config) YAML() ([]byte, error) {
	t, err := template.ParseFS(files, "files/*")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Config

		Servers, Overrides string // lists in CEL
		Policies           []string
	}{c, c.servers(), celList(append([]policy.Policy{policy.ClusterFirstWithAutopath}, c.AllowedOverrides...)),
		[]string{"errors", "warnings"}})
	return out.Bytes(), err
}

// assumedServer is used where the number of the cluster's nameservers does not matter.
const assumedServer = "10.96.0.10"

// servers returns the nameservers of the cluster as a list in CEL.
func (c Config) servers() string {
	if len(c.ClusterDNS) == 0 {
		return "['" + assumedServer + "']"
	}
	return celList(c.ClusterDNS)
}

// celList returns values as a list of strings in CEL. They must not contain quotes.
func celList[T any](values []T) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = fmt.Sprintf("'%v'", v)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
