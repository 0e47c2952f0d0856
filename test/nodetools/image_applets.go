// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodetools

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
	must.Succeed(t, os.WriteFile(files["bin/pgrep"], []byte(pgrep), 0o600))
	text := must.Get(archive([]image{{AppletsImage, files}}))(t)
	path := filepath.Join(dir, "applets.tar")
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	return path
}
