// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestAPIServer_Manifests: the API server accepts all objects that `policies` prints, also with
// values that YAML reads as numbers, truths or null. It is a server-side dry run with strict
// validation: an unknown field is an error.
func TestAPIServer_Manifests(t *testing.T) {
	k := apiserver.Start(t, withoutAccounts).Kubectl(t)
	binary := process.Build(t, t.TempDir())
	for _, flags := range [][]string{
		nil,
		{"--cluster-domain", "1.2"},
		{"--cluster-domain", "true", "--cluster-dns", "::ffff:10.96.0.10,fd00::a"},
		{"--cluster-domain", "null", "--cluster-dns", "10.96.0.10", "--allowed-overrides", "None,Default"},
	} {
		policies, err := exec.CommandContext(t.Context(), binary, append([]string{"policies"}, flags...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v", flags, err)
		}
		out, warnings, err := k.Run(t.Context(), string(policies), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
		if err != nil || warnings != "" || strings.Count(out, " (server dry run)\n") < 6 {
			t.Errorf("%v: %v\n%s%s", flags, err, warnings, out)
		}
	}
}
