// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

// An Edit changes lines of a file that follow each other, or creates the file.
type Edit struct {
	Path    string `json:"path"` // on the node
	Created bool   `json:"created,omitempty"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after"`

	CreatedDirectory bool `json:"createdDirectory,omitempty"` // of Path
}

// hunk returns the lines that e replaces, those that it writes, and the number of lines before
// them.
func (e Edit) hunk() (skipped int, removed, added []string) {
	removed, added = lines(e.Before), lines(e.After)
	for len(removed) > 0 && len(added) > 0 && removed[0] == added[0] {
		removed, added = removed[1:], added[1:]
		skipped++
	}
	for len(removed) > 0 && len(added) > 0 && removed[len(removed)-1] == added[len(added)-1] {
		removed, added = removed[:len(removed)-1], added[:len(added)-1]
	}
	return skipped, removed, added
}

// lines splits text after each line feed.
func lines(text string) []string {
	return slices.Collect(strings.Lines(text))
}

// String returns e as a unified diff without context.
func (e Edit) String() string {
	var out strings.Builder
	skipped, removed, added := e.hunk()
	old := e.Path
	if e.Created {
		old = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", old, e.Path, hunkRange(skipped, len(removed)), hunkRange(skipped, len(added)))
	for _, line := range removed {
		fmt.Fprintf(&out, "-%s\n", strings.TrimSuffix(line, "\n"))
	}
	for _, line := range added {
		fmt.Fprintf(&out, "+%s\n", strings.TrimSuffix(line, "\n"))
	}
	return out.String()
}

// hunkRange returns the range of a hunk: its first line and its length.
func hunkRange(skipped, count int) string {
	if count > 0 {
		skipped++
	}
	return fmt.Sprintf("%d,%d", skipped, count)
}

// apply writes the file, with the mode of the existing one.
func (e Edit) apply(r Root) error {
	path, err := r.Path(e.Path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return write(path, mode, e.After)
}

// write replaces a file.
func write(path string, mode fs.FileMode, text string) error {
	err := atomicfile.WriteMode(path, mode, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// removeLeftovers removes the temporary files of writes of path, on the node, that were killed.
func (r Root) removeLeftovers(path string) error {
	real, err := r.Path(path)
	if err == nil {
		err = atomicfile.RemoveLeftovers(real)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// reverse returns the edit that reverses e in the file as it is now, nil if nothing of e is left.
// Lines that were changed since by others stay.
func (e Edit) reverse(r Root) (*Edit, error) {
	now, err := r.read(e.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, removed, added := e.hunk()
	old, written := strings.Join(removed, ""), strings.Join(added, "")
	switch {
	case now == e.After:
		return &Edit{Path: e.Path, Before: now, After: e.Before}, nil
	case written != "" && strings.Count(now, written) == 1:
		return &Edit{Path: e.Path, Before: now, After: strings.Replace(now, written, old, 1)}, nil
	default: // changed by others: the caller checks the result
		return nil, nil
	}
}

// undo reverses e. A file that e created, and that is empty now, is removed, and so is its directory if
// e created that and it is empty, too. A directory that existed stays: a kubelet does not start without
// that of its flag --config-dir (mergeKubeletConfigurations in cmd/kubelet/app).
func (e Edit) undo(r Root) error {
	if err := r.removeLeftovers(e.Path); err != nil {
		return err
	}
	back, err := e.reverse(r)
	switch {
	case err != nil:
		return err
	case back != nil && (!e.Created || back.After != ""):
		return back.apply(r)
	}
	path, err := r.Path(e.Path)
	if err != nil {
		return err
	}
	if back != nil {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if e.CreatedDirectory { // also by a call that was killed before it wrote the file
		_ = os.Remove(filepath.Dir(path)) // fails if it has other files
	}
	return nil
}
