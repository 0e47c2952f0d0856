// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestRender_SameVerdictAsValidate runs both commands with each vector and with each pod that
// a kubelet has decided about: the exit codes are equal, each error of one is an error of the
// other, and no code has two severities.
func TestRender_SameVerdictAsValidate(t *testing.T) {
	table, err := vectors.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range table {
		t.Run(v.Name, func(t *testing.T) {
			host := ""
			if v.Node.ResolvConf != nil {
				host = *v.Node.ResolvConf
			}
			flags := []string{"--config", writeFile(t, "config.json", map[string]any{
				"apiVersion": "dnsconfigurer.dev/v1alpha1", "kind": "ShimConfiguration",
				"node": map[string]any{"clusterDNS": v.Node.ClusterDNS,
					"clusterDomain": v.Node.ClusterDomain, "allowedOverrides": v.Node.AllowedOverrides},
			})}
			compareVerdicts(t, v.Object, host, flags)
		})
	}
	for _, r := range kubeletCases(t) {
		if r.ResolvConfMode == "missing" || r.Expected.ErrorStage == "dns" || strings.Contains(r.HostResolvConf, "\x00") {
			continue // the node's file is invalid: no verdict about the pod
		}
		t.Run(r.ID, func(t *testing.T) {
			manifest, err := json.Marshal(r.manifest())
			if err != nil {
				t.Fatal(err)
			}
			flags := []string{"--kubelet-config", writeFile(t, "kubelet.json", r.kubeletConfiguration()),
				"--cluster-domain", r.ClusterDomain}
			if r.Manifest {
				flags = append(flags, "--node-name", r.NodeName)
			}
			compareVerdicts(t, manifest, r.HostResolvConf, flags)
		})
	}
}

// compareVerdicts runs render and validate with a manifest and the text of the host file.
func compareVerdicts(t *testing.T, manifest []byte, host string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	object, hostFile := filepath.Join(dir, "object.json"), filepath.Join(dir, "resolv.conf")
	write(t, object, manifest)
	write(t, hostFile, []byte(host))
	flags = append([]string{"-f", object, "-o", "json", "--resolv-conf", hostFile}, flags...)
	rendered := runVerdict(t, append([]string{"render"}, flags...))
	validated := runVerdict(t, append([]string{"validate"}, flags...))
	if rendered.code != validated.code {
		t.Errorf("exit code of render %d, of validate %d", rendered.code, validated.code)
	}
	if diff := cmp.Diff(validated.errors, rendered.errors); diff != "" {
		t.Errorf("errors (-validate +render):\n%s", diff)
	}
	for code, severity := range rendered.severities {
		if other := validated.severities[code]; other != "" && other != severity {
			t.Errorf("%s is %s in render, %s in validate", code, severity, other)
		}
	}
}

// verdict is the result of a command about the objects of a manifest.
type verdict struct {
	code       int
	errors     []string          // "code at field", sorted, each once
	severities map[string]string // by code
}

func runVerdict(t *testing.T, args []string) verdict {
	t.Helper()
	var stdout, stderr bytes.Buffer
	v := verdict{severities: map[string]string{}, code: run(t.Context(), args, nil, &stdout, &stderr)}
	for line := range strings.Lines(stdout.String()) {
		var result struct{ Findings []v1alpha1.Finding }
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%q: %v: %s%s", args, err, line, stderr.String())
		}
		for _, f := range result.Findings {
			v.severities[f.Code] = f.Severity
			if f.Severity == "error" && f.Line > 0 { // not about the node, which config check reports
				v.errors = append(v.errors, fmt.Sprintf("%s at %s", f.Code, f.Field))
			}
		}
	}
	slices.Sort(v.errors)
	v.errors = slices.Compact(v.errors)
	return v
}

// writeFile writes value as JSON to a file with that name, and returns its path.
func writeFile(t *testing.T, name string, value any) string {
	t.Helper()
	js, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	write(t, path, js)
	return path
}
