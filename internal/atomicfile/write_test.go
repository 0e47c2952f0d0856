// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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

// TestRemoveLeftovers: of the files in a directory, only those that a write to this path leaves behind
// when its process is killed are removed.
func TestRemoveLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.sock.sandboxes")
	leftover := ""
	_ = Write(path, func(io.Writer) error {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		leftover = entries[0].Name()
		return nil
	})
	kept := []string{"a.sock.sandboxes", ".a.sock.sandboxes.", ".a.sock.sandboxes.1x", ".a.sock.sandboxes.12345678901",
		".a.sock.1", ".b.sock.sandboxes.1", "a.sock.sandboxes.1"}
	for _, name := range append(kept, leftover, ".a.sock.sandboxes.1234567890") {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for _, name := range []string{".a.sock.sandboxes.2", ".a.sock.sandboxes.3"} {
		kept = append(kept, name)
		must.Succeed(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	if err := RemoveLeftovers(path); err != nil {
		t.Error(err)
	}
	entries := must.Get(os.ReadDir(dir))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if slices.Sort(kept); !slices.Equal(got, kept) {
		t.Errorf("left %q\nwant %q", got, kept)
	}
	for name, want := range map[string]error{
		filepath.Join(t.TempDir(), "file"): nil, filepath.Join(dir, "absent", "file"): os.ErrNotExist,
	} {
		if err := RemoveLeftovers(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
