// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"os"
	"testing"
)

// WriteImage writes an image with one program, at /program, into an archive. Its containers run
// busybox unless they have a command.
func WriteImage(t testing.TB, file, name, program string) {
	t.Helper()
	text, err := archive([]image{{name, map[string]string{"bin/busybox": busybox(), "program": program}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
