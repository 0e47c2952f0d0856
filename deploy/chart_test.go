// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"os"
	"testing"
)

// chartFiles are the files of the chart that are copies, with their sources. They are not
// links, because not every copy of the repository keeps links.
var chartFiles = map[string]string{
	"chart/files/autopath.yaml":      "autopath/policy.yaml",
	"chart/files/dashboard.json":     "monitoring/dashboard.json",
	"chart/files/policies.yaml.tmpl": "../internal/admission/policies/files/policies.yaml.tmpl",
	"chart/files/rules.yaml":         "monitoring/rules.yaml",

	"chart/files/webhook/cert-manager.yaml":   "../internal/admission/manifests/files/cert-manager.yaml",
	"chart/files/webhook/mutating.yaml":       "../internal/admission/manifests/files/mutating.yaml",
	"chart/files/webhook/network-policy.yaml": "../internal/admission/manifests/files/network-policy.yaml",
	"chart/files/webhook/scale.yaml":          "../internal/admission/manifests/files/scale.yaml",
	"chart/files/webhook/validating.yaml":     "../internal/admission/manifests/files/validating.yaml",
}

// TestChart_Files checks the copies in the chart.
func TestChart_Files(t *testing.T) {
	for file, source := range chartFiles {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not a copy of %s (%v): run go test ./deploy -update", file, source, err)
		}
	}
}
