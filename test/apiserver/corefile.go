// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// Corefile returns the Corefile in a file of the source of Kubernetes with a ConfigMap, which may be a template.
func Corefile(t testing.TB, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(kubernetesDir(t), path)))(t)
	_, text2, found := strings.Cut(string(text), "\n  Corefile: |\n")
	if !found {
		t.Fatalf("%s has no Corefile", path)
	}
	var b strings.Builder
	for line := range strings.Lines(text2) {
		if !strings.HasPrefix(line, "    ") {
			break
		}
		b.WriteString(line)
	}
	parsed := must.Get(template.New("Corefile").Parse(b.String()))(t)
	b.Reset()
	must.Succeed(t, parsed.Execute(&b, struct{ DNSDomain string }{"cluster.local"}))
	return b.String()
}

// kubernetesDir returns the directory of the module of Kubernetes.
func kubernetesDir(t testing.TB) string {
	t.Helper()
	text := process.Output(t, kubernetes, nil, "go", "mod", "download", "-json", "k8s.io/kubernetes")
	var module struct{ Dir string }
	must.Succeed(t, json.Unmarshal([]byte(text), &module))
	return module.Dir
}
