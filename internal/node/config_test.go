// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const agentFile = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
node: {clusterDNS: [10.96.0.10], clusterDomain: cluster.local, resolvConf: "", nodeName: worker}
`

// loadAgent loads agentFile with further lines.
func loadAgent(t *testing.T, lines string) (AgentConfig, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(agentFile+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return AgentKind().FromFile(file).Load()
}

// TestAgent_Values checks the limits of fields from both sides.
func TestAgent_Values(t *testing.T) {
	for _, tt := range []struct {
		lines string
		want  string // part of the error; "": there is none
	}{
		{"", ""},
		{"lookupTimeout: 100ms", ""},
		{"lookupTimeout: 99ms", `lookupTimeout: "99ms": want 100ms to 30s`},
		{"lookupTimeout: 30s", ""},
		{"lookupTimeout: 30.001s", `lookupTimeout: "30.001s": want 100ms to 30s`},
		{"lookupTimeout: soon", `lookupTimeout: "soon" is not a duration such as 10s`},
	} {
		_, err := loadAgent(t, tt.lines)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.lines, err, tt.want)
		}
	}
}
