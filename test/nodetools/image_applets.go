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

// pgrep prints the IDs of the processes with a name. Not every busybox has it.
const pgrep = `#!/bin/sh
for process in /proc/[0-9]*; do
	[ "$(cat "$process/comm")" = "$1" ] && echo "${process#/proc/}" && found=1
done 2>/dev/null
[ "$found" ]
`

// BuildAppletsImage writes an image with the commands of busybox that critest runs, each as a file,
// into an archive and returns its path.
func BuildAppletsImage(t testing.TB, dir string) string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"sh", "top", "cat", "echo", "ls", "sleep", "touch", "hostname", "grep", "mount", "id", "env"} {
		files["bin/"+name] = busybox()
	}
	files["bin/pgrep"] = filepath.Join(dir, "pgrep")
	if err := os.WriteFile(files["bin/pgrep"], []byte(pgrep), 0o600); err != nil {
		t.Fatal(err)
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
