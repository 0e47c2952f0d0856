// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/template"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// policyTemplate is the only source of the admission policies; deploy/admission has a rendering of it.
//
//go:embed policies.yaml.tmpl
var policyTemplate embed.FS

// PolicyConfig holds the values of a cluster for the admission policies. Rules that need a missing value are left
// out, because with another value they could deny valid pods.
type PolicyConfig struct {
	ClusterDomain string   // of the kubelets; "": unknown
	ClusterDNS    []string // IP addresses, of the kubelets; none: unknown

	// AllowedOverrides are the policies that the nodes allow in the annotation in addition to
	// ClusterFirstWithAutopath.
	AllowedOverrides []string

	// ExcludedNamespaces are the namespaces whose objects are not checked, in addition to
	// kube-system.
	ExcludedNamespaces []string
}

// normalize removes blanks around the values, and writes addresses in one form. The error joins one
// error for each invalid value.
func (c PolicyConfig) normalize() (PolicyConfig, error) {
	var problems []error
	each := func(values []string, flag, want string, convert func(string) (string, bool)) (converted []string) {
		for _, text := range values {
			value, ok := convert(strings.TrimSpace(text))
			if !ok {
				problems = append(problems, fmt.Errorf("--%s: %q: want %s", flag, text, want))
			}
			converted = append(converted, value)
		}
		return converted
	}
	if c.ClusterDomain != "" {
		c.ClusterDomain = each([]string{c.ClusterDomain}, "cluster-domain", "a domain such as cluster.local",
			func(s string) (string, bool) { return s, s == "" || fqdn.SubdomainProblems(s) == nil })[0]
	}
	c.ClusterDNS = each(c.ClusterDNS, "cluster-dns", "an IP address", func(s string) (string, bool) {
		a, err := netip.ParseAddr(s)
		return a.String(), err == nil && a.Zone() == ""
	})
	if n := len(c.ClusterDNS); n > policy.MaxNameservers {
		problems = append(problems,
			fmt.Errorf("--cluster-dns: %d addresses: every pod would exceed the limit of %d nameservers", n, policy.MaxNameservers))
	}
	c.AllowedOverrides = each(c.AllowedOverrides, "allowed-overrides", "Default, ClusterFirst, ClusterFirstWithHostNet or None",
		func(s string) (string, bool) { return s, slices.Contains(overridable, policy.Policy(s)) })
	c.ExcludedNamespaces = each(c.ExcludedNamespaces, "exclude-namespace", "the name of a namespace",
		func(s string) (string, bool) { return s, fqdn.LabelProblems(s) == nil })
	return c, errors.Join(problems...)
}

// overridable are the values of node.allowedOverrides.
var overridable = []policy.Policy{policy.Default, policy.ClusterFirst, policy.ClusterFirstWithHostNet, policy.None}

// YAML returns the policies and their bindings as documents. The error joins one error for each
// invalid value. A policy precedes its bindings: `kubectl apply` keeps the order, and a policy must have
// lost a paramKind of an earlier release before its bindings lose their paramRef.
func (c PolicyConfig) YAML() ([]byte, error) {
	c, err := c.normalize()
	if err != nil {
		return nil, err
	}
	t, err := template.ParseFS(policyTemplate, "*")
	if err != nil {
		return nil, err
	}
	servers := c.ClusterDNS
	if servers == nil {
		servers = []string{"10.96.0.10"} // of rules for which the number of servers does not matter
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		PolicyConfig

		Servers, Overrides string // lists in CEL
		Policies           []string
	}{c, celList(servers), celList(append([]string{string(policy.ClusterFirstWithAutopath)}, c.AllowedOverrides...)),
		[]string{"errors", "warnings"}})
	return out.Bytes(), err
}

// celList returns values as a list of strings in CEL. They must not contain quotes.
func celList(values []string) string { return "['" + strings.Join(values, "', '") + "']" }
