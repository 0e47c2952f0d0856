// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestPolicies_Values(t *testing.T) {
	dns := func(domain string, servers ...string) PolicyConfig {
		return PolicyConfig{ClusterDomain: domain, ClusterDNS: servers}
	}
	const (
		namespaces = `(?m)^        values: (\[kube-system.*)$`
		variable   = `(?m)^  - name: (?:domain|clusterDNS)\b.*\n    expression: "(.*)"$`
		overrides  = `(?m)^  - name: overrides\b.*\n    expression: "(.*)"$`
	)
	for _, tt := range []struct {
		config PolicyConfig
		value  string // a pattern
		want   string // its values in both policies, or the error
	}{
		{dns(""), variable, "'cluster.local' 'cluster.local' ['10.96.0.10']"},
		{dns(" corp.example\n", " 10.96.0.10", "FD00::0A "), variable, "'corp.example' 'corp.example' ['10.96.0.10', 'fd00::a']"},
		{dns("a.b", "10.0.0.1", "10.0.0.2", "10.0.0.3"), variable, "'a.b' 'a.b' ['10.0.0.1', '10.0.0.2', '10.0.0.3']"},
		{dns("Corp.Example"), "", `--cluster-domain: "Corp.Example": want a domain such as cluster.local`},
		{dns("cluster.local."), "", `--cluster-domain: "cluster.local.": want a domain such as cluster.local`},
		{dns("a'b", "", "fe80::1%eth0", "10.96.0.10:53"), "", `--cluster-domain: "a'b": want a domain such as cluster.local
--cluster-dns: "": want an IP address
--cluster-dns: "fe80::1%eth0": want an IP address
--cluster-dns: "10.96.0.10:53": want an IP address`},
		{dns("", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"), "",
			"--cluster-dns: 4 addresses: every pod would exceed the limit of 3 nameservers"},
		{PolicyConfig{}, namespaces, "[kube-system] [kube-system]"},
		{PolicyConfig{ExcludedNamespaces: []string{"ci", " 123"}}, namespaces, `[kube-system, "ci", "123"] [kube-system, "ci", "123"]`},
		{PolicyConfig{ExcludedNamespaces: []string{"", "kube-*", "a.b"}}, "", `--exclude-namespace: "": want the name of a namespace
--exclude-namespace: "kube-*": want the name of a namespace
--exclude-namespace: "a.b": want the name of a namespace`},
		{PolicyConfig{}, overrides, "['ClusterFirstWithAutopath']"},
		{PolicyConfig{AllowedOverrides: []string{"None", " Default"}}, overrides, "['ClusterFirstWithAutopath', 'None', 'Default']"},
		{PolicyConfig{AllowedOverrides: []string{"none", "ClusterFirstWithAutopath"}}, "",
			`--allowed-overrides: "none": want Default, ClusterFirst, ClusterFirstWithHostNet or None
--allowed-overrides: "ClusterFirstWithAutopath": want Default, ClusterFirst, ClusterFirstWithHostNet or None`},
	} {
		text, err := tt.config.YAML()
		if tt.value == "" {
			if err == nil || err.Error() != tt.want {
				t.Errorf("%+v: %v, want %s", tt.config, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range regexp.MustCompile(tt.value).FindAllSubmatch(text, -1) {
			got = append(got, string(m[1]))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%+v: %q, want %s", tt.config, got, tt.want)
		}
	}
}

// TestPolicies_LeftOut: the rules that need a missing value are left out, and nothing else.
func TestPolicies_LeftOut(t *testing.T) {
	render := func(c PolicyConfig) []string {
		text := must.Get(c.YAML())(t)
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
	known := PolicyConfig{ClusterDomain: "cluster.local", ClusterDNS: []string{"10.96.0.10"}}
	all := render(known)
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(rule string) bool {
			line, _, _ := strings.Cut(strings.TrimPrefix(rule, "  # "), "\n")
			return slices.Contains(names, line)
		})
	}
	for _, tt := range []struct {
		config PolicyConfig
		want   []string
	}{
		{PolicyConfig{ClusterDNS: known.ClusterDNS}, without("fqdn-too-long", "ordinal-limit: of the FQDN")},
		{PolicyConfig{ClusterDomain: known.ClusterDomain}, without("nameserver-limit", "foreign-nameserver")},
		{PolicyConfig{}, without("fqdn-too-long", "ordinal-limit: of the FQDN", "nameserver-limit", "foreign-nameserver")},
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
