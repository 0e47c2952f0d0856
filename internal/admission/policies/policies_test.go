// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		domain  string
		servers []string
		want    string // the variables domain and clusterDNS, or the error
	}{
		{"", nil, "'cluster.local' ['10.96.0.10']"},
		{" corp.example\n", []string{" 10.96.0.10", "FD00::0A "}, "'corp.example' ['10.96.0.10', 'fd00::a']"},
		{"a.b", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "'a.b' ['10.0.0.1', '10.0.0.2', '10.0.0.3']"},
		{"Corp.Example", nil, `--cluster-domain: "Corp.Example": want a domain such as cluster.local`},
		{"cluster.local.", nil, `--cluster-domain: "cluster.local.": want a domain such as cluster.local`},
		{"a'b", []string{"", "fe80::1%eth0", "10.96.0.10:53"}, `--cluster-domain: "a'b": want a domain such as cluster.local
--cluster-dns: "": want an IP address
--cluster-dns: "fe80::1%eth0": want an IP address
--cluster-dns: "10.96.0.10:53": want an IP address`},
		{"", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"},
			"--cluster-dns: 4 addresses: every pod would exceed the limit of 3 nameservers"},
	} {
		c, err := Options{ClusterDomain: tt.domain, ClusterDNS: tt.servers}.Parse()
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%q, %q: %v, want %s", tt.domain, tt.servers, err, tt.want)
			}
			continue
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		domain, servers := expressions(text, "domain"), expressions(text, "clusterDNS")
		if len(domain) != 2 || len(servers) != 1 || domain[0] != domain[1] || domain[0]+" "+servers[0] != tt.want {
			t.Errorf("%q, %q: domain %q, servers %q, want %s", tt.domain, tt.servers, domain, servers, tt.want)
		}
	}
}

func TestOptions_ExcludedNamespaces(t *testing.T) {
	for _, tt := range []struct {
		namespaces []string
		want       string // the values of the selector, or the error
	}{
		{nil, "[kube-system]"},
		{[]string{"ci", " 123"}, `[kube-system, "ci", "123"]`},
		{[]string{"", "kube-*", "a.b"}, `--exclude-namespace: "": want the name of a namespace
--exclude-namespace: "kube-*": want the name of a namespace
--exclude-namespace: "a.b": want the name of a namespace`},
	} {
		c, err := Options{ExcludedNamespaces: tt.namespaces}.Parse()
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%q: %v, want %s", tt.namespaces, err, tt.want)
			}
			continue
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "        values: "+tt.want+"\n"); n != 2 {
			t.Errorf("%q: %d policies have %s, want 2", tt.namespaces, n, tt.want)
		}
	}
}

func TestOptions_AllowedOverrides(t *testing.T) {
	for _, tt := range []struct {
		overrides []string
		want      string // the variable overrides, or the error
	}{
		{nil, "['ClusterFirstWithAutopath']"},
		{[]string{"None", " Default"}, "['ClusterFirstWithAutopath', 'None', 'Default']"},
		{[]string{"none", "ClusterFirstWithAutopath"},
			`--allowed-overrides: "none": want Default, ClusterFirst, ClusterFirstWithHostNet or None
--allowed-overrides: "ClusterFirstWithAutopath": want Default, ClusterFirst, ClusterFirstWithHostNet or None`},
	} {
		c, err := Options{AllowedOverrides: tt.overrides}.Parse()
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%q: %v, want %s", tt.overrides, err, tt.want)
			}
			continue
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if got := expressions(text, "overrides"); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%q: %q, want %s", tt.overrides, got, tt.want)
		}
	}
}

// expressions returns the expressions of the variables with a name.
func expressions(text []byte, name string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^  - name: `+name+`\b.*\n    expression: "(.*)"$`).FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// TestYAML_LeftOut: the rules that need a missing value are left out, and nothing else.
func TestYAML_LeftOut(t *testing.T) {
	render := func(c Config) []string {
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "paramKind:") || strings.Contains(string(text), "paramRef:") {
			t.Error("the policies have parameters")
		}
		var rules []string
		for _, validations := range strings.Split(string(text), "\n  validations:\n")[1:] {
			validations, _, _ = strings.Cut(validations, "\n---\n")
			rules = append(rules, strings.Split(validations, "\n  # ")...)
		}
		return rules
	}
	known, err := Options{ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	all := render(known)
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(rule string) bool {
			line, _, _ := strings.Cut(strings.TrimPrefix(rule, "  # "), "\n")
			return slices.Contains(names, line)
		})
	}
	for _, tt := range []struct {
		config Config
		want   []string
	}{
		{Config{ClusterDNS: known.ClusterDNS}, without("fqdn-too-long", "ordinal-limit: of the FQDN")},
		{Config{ClusterDomain: known.ClusterDomain}, without("nameserver-limit", "foreign-nameserver")},
		{Config{}, without("fqdn-too-long", "ordinal-limit: of the FQDN", "nameserver-limit", "foreign-nameserver")},
	} {
		trim := func(rules []string) (texts []string) {
			for _, r := range rules {
				texts = append(texts, strings.TrimPrefix(r, "  # "))
			}
			return texts
		}
		if diff := cmp.Diff(trim(tt.want), trim(render(tt.config))); diff != "" {
			t.Errorf("%+v: (-want +got)\n%s", tt.config, diff)
		}
	}
	if len(without("fqdn-too-long", "ordinal-limit: of the FQDN", "nameserver-limit", "foreign-nameserver")) != len(all)-4 {
		t.Error("a rule has another name")
	}
}
