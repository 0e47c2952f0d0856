// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
)

// maxLinks is the number of symbolic links that Linux follows in a path (path_resolution(7)).
const maxLinks = 40

// maxFile limits the files that are read, in bytes. etcd's largest object has 1.5 MiB.
const maxFile = 1 << 20

// A Root is the root directory of a node, "/" for this one.
type Root string

// IsThisMachine reports whether the node is this machine.
func (r Root) IsThisMachine() bool { return filepath.Clean(string(r)) == "/" }

// Path returns the path on this machine of an absolute path on the node. Symbolic links,
// absolute ones too, are followed below the root, as chroot(2) does.
func (r Root) Path(path string) (string, error) {
	done, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	for len(rest) > 0 {
		next := filepath.Join(done, rest[0]) // ".." of "/" is "/"
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(string(r), next))
		if err != nil { // not a link, or absent
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many levels of symbolic links", path)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return filepath.Join(string(r), done), nil
}

// read returns the text of a file, which must be regular.
func (r Root) read(path string) (string, error) {
	real, err := r.Path(path)
	if err != nil {
		return "", err
	}
	text, err := atomicfile.ReadRegular(real, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", real, err)
	}
	return string(text), err
}

// list returns the paths of the files with an extension in a directory and those below it, in
// lexical order. A directory that does not exist has none.
func (r Root) list(dir, extension string) (paths []string, _ error) {
	real, err := r.Path(dir)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(real, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(path) == extension {
			paths = append(paths, filepath.Join(dir, strings.TrimPrefix(path, real)))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return paths, err
}

// write writes a file, and the directories above it. It removes what a write that was killed has left.
func (r Root) write(path, text string) error {
	real, err := r.Path(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		return err
	}
	err = atomicfile.RemoveLeftovers(real)
	if err == nil {
		err = atomicfile.WriteText(real, 0o644, text)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// remove removes a file, if it exists, and what a write that was killed has left.
func (r Root) remove(path string) error {
	real, err := r.Path(path)
	if err != nil {
		return err
	}
	for _, err := range []error{atomicfile.RemoveLeftovers(real), os.Remove(real)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
