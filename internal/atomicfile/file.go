// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the content of a file durably with what write writes. The file has mode 0600.
// If Write fails, the old file stays.
func Write(path string, write func(io.Writer) error) error { return replace(path, 0o600, write) }

// WriteText is Write for a text, and a file with this mode.
func WriteText(path string, mode os.FileMode, text string) error {
	return replace(path, mode, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func replace(path string, mode os.FileMode, write func(io.Writer) error) error {
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

const (
	// maxEntries is the number of entries that are read of a directory.
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

// ReadRegular returns the contents of a regular file of at most limit bytes, or of one that a symbolic link points to.
// Reading another kind of file may never end.
func ReadRegular(path string, limit int64) ([]byte, error) {
	if err := CheckRegular(path, limit); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1)) // a file may grow, and those of /proc have no size
	if err == nil && int64(len(text)) > limit {
		err = errTooLarge(limit)
	}
	return text, err
}

// CheckRegular returns the error that ReadRegular would return for the kind and the size of a file.
func CheckRegular(path string, limit int64) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() > limit:
		return errTooLarge(limit)
	}
	return nil
}

func errTooLarge(limit int64) error { return fmt.Errorf("larger than %d bytes", limit) }
