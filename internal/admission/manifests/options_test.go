// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"
)

// TestOptions_Invalid checks that each error names its flag and its value.
func TestOptions_Invalid(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`--namespace: "Shop"`:                       func(o *Options) { o.Namespace = "Shop" },
		`--image: ""`:                               func(o *Options) { o.Image = "" },
		`--image: "a b"`:                            func(o *Options) { o.Image = "a b" },
		`--cluster-domain: "a..b"`:                  func(o *Options) { o.ClusterDomain = "a..b" },
		`--exclude-namespace: ""`:                   func(o *Options) { o.ExcludedNamespaces = []string{"ci", ""} },
		`--cluster-dns: "10.0.0"`:                   func(o *Options) { o.ClusterDNS = []string{"10.0.0.1", "10.0.0"} },
		`--api-server-cidr: "192.0.2.1/24"`:         func(o *Options) { o.APIServerCIDRs = []string{"192.0.2.1/24"} },
		`--cert-manager-issuer: "CA/x"`:             func(o *Options) { o.Issuer, o.CAFile = "CA/x", "" },
		`want one source of the certificate: set -`: func(o *Options) { o.Issuer = "internal" },
		`want one source of the certificate`:        func(o *Options) { o.CAFile = "" },
	} {
		o := Options{Config: Config{Namespace: "dnsconfigurer", Image: "registry.example/image:v1"}, CAFile: "ca.crt"}
		if _, err := o.Parse(); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := o.Parse(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestOptions_Issuer(t *testing.T) {
	for text, want := range map[string][2]string{
		"internal": {"Issuer", "internal"}, "Issuer/internal": {"Issuer", "internal"}, "ClusterIssuer/ca": {"ClusterIssuer", "ca"},
	} {
		c, err := Options{Config: Config{Namespace: "n", Image: "i"}, Issuer: text}.Parse()
		if err != nil || [2]string{c.IssuerKind, c.IssuerName} != want {
			t.Errorf("%s: %s/%s, %v", text, c.IssuerKind, c.IssuerName, err)
		}
	}
}

// TestLoadBundle_Size: a file without an end is an error.
func TestLoadBundle_Size(t *testing.T) {
	want := "reading the CA certificate: /dev/zero: larger than 1048576 bytes"
	if err := new(Config).LoadBundle("/dev/zero"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
