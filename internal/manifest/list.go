// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"os"
	"path/filepath"
	"slices"
)

// extensions are those of manifests. Other files in a directory are ignored.
var extensions = []string{".yaml", ".yml", ".json"}

// List returns the paths of the manifests in a directory, sorted by name. It does not
// descend into subdirectories.
func List(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(directory, e.Name()))
		}
	}
	return files, nil
}
