// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"io"
	"os"
	"path/filepath"
)

// Write replaces the content of a file durably with what write writes. The file has mode 0600.
// If Write fails, the old file stays.
func Write(path string, write func(io.Writer) error) error { return WriteMode(path, 0o600, write) }

// WriteMode is Write for a file with another mode.
func WriteMode(path string, mode os.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, temporaryPrefix(filepath.Base(path))+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no-op after the rename
	err = write(f)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
