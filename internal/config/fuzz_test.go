// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// FuzzCheckFields: each field of each configuration is accepted or refused, and the places of
// the errors change nothing.
func FuzzCheckFields(f *testing.F) {
	checks := map[string]func(path string) (plain, withPlaces error){
		v1alpha1.KindShim:      checkFields(ShimKind()),
		v1alpha1.KindAgent:     checkFields(AgentKind()),
		v1alpha1.KindDNS:       checkFields(DNSKind()),
		v1alpha1.KindNodeCache: checkFields(NodeCacheKind()),
		v1alpha1.KindWebhook:   checkFields(WebhookKind()),
	}
	for _, seed := range []struct{ kind, fields string }{
		{v1alpha1.KindShim, "mode: Force\nlisten: unix:///a\nnode: {clusterDNS: [10.96.0.10], nodeIPs: ['::1']}\nlookupTimeout: 2s\n"},
		{v1alpha1.KindAgent, "startupTaint: a/b=c:NoSchedule\nrefresh: All\nsandboxDirectories: [/a]\n"},
		{v1alpha1.KindDNS, "listen: ['[::]:53', ':53']\nstubDomains: [{zone: a.example, servers: [tls://192.0.2.1%a]}]\nttl: 5\n"},
		{v1alpha1.KindNodeCache, "listen: ['169.254.20.10:53']\ninterface: lo\nreverseCIDRs: [10.0.0.0/8]\nautopathSuffix: a.b\n"},
		{v1alpha1.KindWebhook, "listen: ':8443'\ntls: {certFile: c}\nlameduck: 5s\n"},
	} {
		f.Add(seed.kind, seed.fields)
	}
	file := filepath.Join(f.TempDir(), "file.yaml")
	f.Fuzz(func(t *testing.T, kind, fields string) {
		check, ok := checks[kind]
		if !ok {
			return
		}
		writeFile(t, file, kind, fields)
		plain, withPlaces := check(file)
		if (plain == nil) != (withPlaces == nil) {
			t.Errorf("%v, with places: %v", plain, withPlaces)
		}
	})
}

// checkFields returns the check of a kind, without and with places in its error.
func checkFields[C any](k *Kind[C]) func(path string) (plain, withPlaces error) {
	return func(path string) (plain, withPlaces error) {
		f, _ := ReadFile(path) // the first check has its error
		return k.FromFile(path).CheckFields(), k.FromText(f).CheckFields()
	}
}
