// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// TestPodTable checks that no line of the table is wider than 100 columns, also with the longest
// values.
func TestPodTable(t *testing.T) {
	then := time.Now().Add(-100 * time.Hour)
	pods := []v1alpha1.NodePod{
		{Namespace: "shop", Name: "web-0", Policy: "ClusterFirst", Source: "spec", Outcome: "edited"},
		{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 253), Policy: "ClusterFirstWithAutopath", Source: "annotation",
			Outcome: "node_facts_mismatch", Drift: "unreadable", LastRefresh: &then},
		{Namespace: "shop", Name: "new"},
		{Namespace: "shop", Name: "restored", Policy: "Default", Source: "spec", Outcome: "unchanged", Restored: true},
	}
	var out strings.Builder
	if err := writePodTable(&out, pods); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 1+len(pods) {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
	for _, line := range lines {
		if len(line) > tableWidth {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if !strings.HasPrefix(lines[2], "nnn") || !strings.Contains(lines[2], "..") {
		t.Errorf("%s", lines[2])
	}
}
