// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

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
