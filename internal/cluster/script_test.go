// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"golang.org/x/tools/txtar"
)

// Update is the flag of the tests of both packages in this directory.
var Update = flag.Bool("update", false, "rewrite the results in testdata: read the diff before committing it")

// RunScripts calls run in fake time for each script in a directory, with streaming lists and without.
func RunScripts(t *testing.T, dir string, run func(t *testing.T, archive *txtar.Archive, streaming bool)) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts: ", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, streaming := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, streaming lists %t", filepath.Base(path), streaming), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { run(t, archive, streaming) })
			})
		}
		if *Update {
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// PlayScript does the steps of a script, whose names are those of its files, and compares their results.
func PlayScript(t *testing.T, archive *txtar.Archive, step func(text string) string) {
	for i := range archive.Files {
		f := &archive.Files[i]
		synctest.Wait()
		got := step(f.Name)
		if !*Update && got != string(f.Data) {
			t.Errorf("%s\n got: %swant: %s", f.Name, got, f.Data)
		}
		f.Data = []byte(got)
	}
}
