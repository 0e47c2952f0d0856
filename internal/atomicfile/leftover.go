// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxEntries is the number of entries of a directory of which more are not read.
	maxEntries = 10_000

	// maxSuffix is the length of the random number in the name of a temporary file: 32 bits.
	maxSuffix = 10
)

// RemoveLeftovers removes the temporary files of writes to path that were killed. No write to path may be
// in progress.
func RemoveLeftovers(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxEntries)
	if errors.Is(err, io.EOF) {
		err = nil // no entries
	}
	for _, e := range entries {
		if e.Type().IsRegular() && isTemporary(e.Name(), filepath.Base(path)) {
			if removeErr := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
	}
	return err
}

// temporaryPrefix begins the names of the temporary files for a file. A number follows.
func temporaryPrefix(base string) string { return "." + base + "." }

func isTemporary(name, base string) bool {
	number, ok := strings.CutPrefix(name, temporaryPrefix(base))
	return ok && number != "" && len(number) <= maxSuffix && strings.Trim(number, "0123456789") == ""
}
