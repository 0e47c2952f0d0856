// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package fqdn_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

var names = []string{
	"", "a", "web-0", "0", "-", "-web", "web-", "a--b", "Web", "a_b", "a.b", ".", "a.", ".a", "a..b", "-a.b", "a.-b", "a.b-",
	"ä", "a b", "a\n", "a\x00", "\xff",
	strings.Repeat("a", 62), strings.Repeat("a", 63), strings.Repeat("a", 64),
	strings.Repeat("a", 64) + ".b", strings.Repeat("A", 64),
	strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "aa", strings.Repeat("-", 254),
}

// TestProblems_SameAsAPI compares with the API machinery, whose words are in the kubelet's
// errors.
func TestProblems_SameAsAPI(t *testing.T) {
	for _, s := range names {
		checkProblems(t, s)
	}
}

func FuzzProblems(f *testing.F) {
	for _, s := range names {
		f.Add(s)
	}
	f.Fuzz(checkProblems)
}

func checkProblems(t *testing.T, s string) {
	if got, want := fqdn.LabelProblems(s), validation.IsDNS1123Label(s); !slices.Equal(got, want) {
		t.Errorf("LabelProblems(%q) = %q, the API returns %q", s, got, want)
	}
	if got, want := fqdn.SubdomainProblems(s), validation.IsDNS1123Subdomain(s); !slices.Equal(got, want) {
		t.Errorf("SubdomainProblems(%q) = %q, the API returns %q", s, got, want)
	}
}

func TestDomainProblem_Limits(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name253 := strings.Join([]string{label63, label63, label63, strings.Repeat("a", 61)}, ".")
	tests := []struct{ domain, want string }{
		{"corp.example", ""},
		{"corp.example.", ""},
		{".", ""},
		{"_tcp.Corp.example", ""}, // any octet is valid in a label, RFC 2181 section 11
		{"*.example", ""},
		{"", "has an empty label"},
		{"..", "has an empty label"},
		{"a..b", "has an empty label"},
		{".a", "has an empty label"},
		{label63 + ".example", ""},
		{label63 + "a.example", "has a label of 64 bytes, a label has at most 63"},
		{name253, ""},
		{name253 + ".", ""},
		{name253 + "a", "is 254 bytes long, a domain name has at most 253"},
	}
	for _, tt := range tests {
		if got := fqdn.DomainProblem(tt.domain); got != tt.want {
			t.Errorf("DomainProblem(%q) = %q, want %q", tt.domain, got, tt.want)
		}
	}
}

func TestCutHostname_Limits(t *testing.T) {
	a62, a63 := strings.Repeat("a", 62), strings.Repeat("a", 63)
	tests := []struct{ name, want, why string }{
		{"web-0", "web-0", "fits"},
		{"web-0.east.example", "web-0.east.example", "dots stay"},
		{a63, a63, "63 bytes fit"},
		{a62 + "-", a62 + "-", "a short name keeps its end"},
		{a63 + "b", a63, "64 bytes are truncated"},
		{a62 + "-b", a62, "a truncated name loses '-' at its end"},
		{a62[:60] + "-.-b", a62[:60], "and '.'"},
		{strings.Repeat("-", 64), "", "nothing remains"},
		{"", "", ""},
	}
	for _, tt := range tests {
		if got := fqdn.CutHostname(tt.name); got != tt.want {
			t.Errorf("CutHostname(%q) = %q, want %q: %s", tt.name, got, tt.want, tt.why)
		}
	}
}
