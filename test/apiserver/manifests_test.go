// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestAPIServer_Manifests: the API server accepts all objects that `webhook manifests` and
// `policies` print, also with values that YAML reads as numbers, truths, null or anchors. It is a
// server-side dry run with strict validation: an unknown field is an error.
func TestAPIServer_Manifests(t *testing.T) {
	k := apiserver.Start(t, withoutAccounts).Kubectl(t)
	dir := t.TempDir()
	binary, ca := process.Build(t, dir), filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, certs.NewAuthority(t).PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func(t *testing.T, objects int, args ...string) {
		t.Helper()
		manifests, err := exec.CommandContext(t.Context(), binary, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		out, warnings, err := k.Run(t.Context(), string(manifests), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		if err != nil || warnings != "" || strings.Count(out, " (server dry run)\n") < objects {
			t.Errorf("%v: %v\n%s%s", args, err, warnings, out)
		}
	}
	for _, namespace := range []string{"123", "true", "on", "null", "1e3", "0x1f", "y"} {
		k.MustRun(t, "", "create", "namespace", namespace, "--save-config") // a dry run makes none
		apply(t, 10, "webhook", "manifests", "-n", namespace, "--ca-file", ca, "--cluster-domain", "1.2", "--image", "&x")
	}
	apply(t, 8, "webhook", "manifests", "-n", "123", "--ca-file", ca, "--scale=false", "--mutating=false",
		"--cluster-dns", "10.96.0.10,fd00::a", "--api-server-cidr", "192.0.2.0/24,2001:db8::/32", "--image", "*x")
	for _, flags := range [][]string{
		nil,
		{"--cluster-domain", "1.2"},
		{"--cluster-domain", "true", "--cluster-dns", "::ffff:10.96.0.10,fd00::a"},
		{"--cluster-domain", "null", "--cluster-dns", "10.96.0.10", "--allowed-overrides", "None,Default"},
	} {
		apply(t, 6, append([]string{"policies"}, flags...)...)
	}
}
