// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestRead_ConfigMapSize: the number of files in a ConfigMap is limited, because the positions of
// each cost as much as the whole ConfigMap.
func TestRead_ConfigMapSize(t *testing.T) {
	for n, want := range map[int]string{
		maxFiles:     "<nil>",
		maxFiles + 1: "stdin:2:1: data: more than 32 configuration files in the ConfigMap: check them one by one",
	} {
		text := "kind: ConfigMap\ndata:\n"
		for i := range n {
			text += fmt.Sprintf("  %d.yaml: |\n    kind: DNSConfiguration\n", i)
		}
		entries, _, err := read(t.Context(), "-", strings.NewReader(text))
		if fmt.Sprint(err) != want || err == nil && len(entries) != n {
			t.Errorf("%d files: %d read, %v, want %s", n, len(entries), err, want)
		}
	}
}
