// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// pluginManifest is the manifest of the kubectl plugin for krew (krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
// krew links the program under the name kubectl-dnsconfig.
const pluginManifest = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: dnsconfig
spec:
  version: {{.Version}}
  homepage: {{.Homepage}}
  shortDescription: Find and explain DNS problems of pods
  description: |
    Finds what is wrong with the DNS of a cluster (doctor), shows each query of a
    lookup in a pod (lookup), explains the resolv.conf that pods get (render), and
    checks manifests before they are applied (validate). It changes nothing in the
    cluster, unless "doctor --ephemeral-container" is used.
  platforms:
{{- range .Platforms}}
  - selector:
      matchLabels:
        os: {{.OS}}
        arch: {{.Arch}}
    uri: {{$.Homepage}}/releases/download/{{$.Version}}/{{.Name}}.tar.gz
    sha256: {{.Sum}}
    files:
    - from: {{.Name}}/{{.Program}}
      to: .
    - from: {{.Name}}/LICENSE
      to: .
    bin: {{.Program}}
{{- end}}
`

// pluginPlatform is what the manifest has for an archive.
type pluginPlatform struct{ OS, Arch, Name, Program, Sum string }

// buildPlugin writes the manifest of the plugin. It needs the results of buildArchives.
func buildPlugin(_ context.Context, r *release) error {
	parsed, err := template.New("dnsconfig.yaml").Parse(pluginManifest)
	if err != nil {
		return err
	}
	var platforms []pluginPlatform
	for _, b := range r.binaries {
		name := r.archiveName(b)
		data, err := os.ReadFile(filepath.Join(r.out, name+".tar.gz"))
		if err != nil {
			return err
		}
		platforms = append(platforms, pluginPlatform{b.os, b.arch, name, b.programName(), fmt.Sprintf("%x", sha256.Sum256(data))})
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, struct {
		Version, Homepage string
		Platforms         []pluginPlatform
	}{r.imageTag(), homepage, platforms})
	if err != nil {
		return err
	}
	return r.write("dnsconfig.yaml", out.Bytes())
}
