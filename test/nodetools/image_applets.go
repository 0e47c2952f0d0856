// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"os"
	"path/filepath"
	"testing"
)

// AppletsImage is the image of BuildAppletsImage.
const AppletsImage = "localhost/applets:1"

// BuildAppletsImage writes an image with the commands of busybox that critest runs, each as a file,
// into an archive and returns its path.
func BuildAppletsImage(t testing.TB, dir string) string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"sh", "top", "cat", "echo", "ls", "sleep", "touch", "hostname", "grep", "mount", "id", "env", "pgrep"} {
		files["bin/"+name] = busybox()
	}
	text, err := archive([]image{{AppletsImage, files}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "applets.tar")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
