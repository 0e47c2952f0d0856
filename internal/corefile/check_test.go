// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
	"testing"
)

// TestCompare: the Corefile for the comparison has other ports and no API server, and the questions are about its names.
func TestCompare(t *testing.T) {
	blocks, problems := Source{}.Parse(File{"f", `.:53 tls://. {
health
rewrite name shop.example web.eu.svc.cluster.local
template IN A {
answer "{{ .Name }} 60 IN A 192.0.2.8"
}
kubernetes cluster.local in-addr.arpa ip6.arpa {
ttl 30
fallthrough ip6.arpa
}
forward . 192.0.2.1
}
corp.example:5353 {
file db
}
`})
	if problems != nil {
		t.Fatal(problems)
	}
	got := Compare(blocks, map[string]string{"53": "1053", "5353": "1054", "853": "1055"}, "/z", []string{"mail A 192.0.2.30"})
	const text = `.:1053 {
bind 127.0.0.1
rewrite name shop.example web.eu.svc.cluster.local
template IN A {
answer "{{ .Name }} 60 IN A 192.0.2.8"
}
forward . 192.0.2.1
file /z cluster.local {
fallthrough ip6.arpa
}
}
corp.example.:1054 {
bind 127.0.0.1
file db
}
`
	if lines := strings.ReplaceAll(strings.ReplaceAll(got.Text, " \n", "\n"), "  ", " "); lines != text {
		t.Errorf("%s", lines)
	}
	if !strings.Contains(got.Zone, "\nweb.eu.svc 30 IN A 10.96.0.") || !strings.Contains(got.Manifests, "{name: web, namespace: eu}") {
		t.Errorf("%s%s", got.Zone, got.Manifests)
	}
	if want := []string{"tls://.", "names in cluster.local", "names in in-addr.arpa"}; !slices.Equal(got.Omitted, want) {
		t.Errorf("%q, want %q", got.Omitted, want)
	}
	for _, q := range []Question{{"shop.example.", "1053"}, {"mail.", "1053"}, {"corp.example.", "1054"}} {
		if !slices.Contains(got.Names, q) {
			t.Errorf("no %v", q)
		}
	}
	isCluster := func(q Question) bool { return strings.HasSuffix(q.Name, ".cluster.local.") }
	if slices.ContainsFunc(got.Names, isCluster) || len(got.Names) < maxNames/2 || len(got.Names) > maxNames {
		t.Errorf("%d names: %v", len(got.Names), got.Names)
	}
}
