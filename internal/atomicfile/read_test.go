// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	must.Succeed(t, errors.Join(os.WriteFile(file, []byte("12345"), 0o600), os.Symlink(file, link), syscall.Mkfifo(fifo, 0o600)))
	for _, tt := range []struct {
		path  string
		limit int64
		want  string
	}{
		{file, 5, ""},
		{link, 5, ""},
		{file, 4, "larger than 4 bytes"},
		{fifo, 5, "not a regular file"},
		{dir, 5, "not a regular file"},
	} {
		text, err := ReadRegular(tt.path, tt.limit)
		if tt.want == "" && (err != nil || string(text) != "12345") || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: got %q, %v, want error %q", tt.path, text, err, tt.want)
		}
	}
	if _, err := ReadRegular(filepath.Join(dir, "missing"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
