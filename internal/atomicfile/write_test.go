// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	failed := errors.New("disk full")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{
		{"one", nil, "one"},
		{"half of two", failed, "one"},
		{"three", nil, "three"},
	} {
		err := Write(path, func(w io.Writer) error {
			_, err := io.WriteString(w, c.text)
			return errors.Join(err, c.err)
		})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.text, err, c.err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
			t.Errorf("%s: the file has %q, want %q (%v)", c.text, got, c.want, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, want 1 (%v)", len(entries), err)
	}
	if err := Write(filepath.Join(dir, "absent", "file"), func(io.Writer) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in an absent directory: %v", err)
	}
}
