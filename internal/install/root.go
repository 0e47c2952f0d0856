// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/atomicfile"
	"github.com/dnsconfigurer/dnsconfigurer/internal/bypass"
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
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: is not a regular file", real)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s: has %d bytes, at most %d are supported", real, info.Size(), maxFile)
	}
	text, err := os.ReadFile(real)
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
			paths = append(paths, dir+strings.TrimPrefix(path, real))
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
		err = atomicfile.WriteMode(real, 0o644, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
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

// A Switch turns the bypass of a node on and off, together with the units of the shim.
type Switch struct {
	Bypass    *bypass.Bypass
	Systemctl Systemctl
	Systemd   bool                        // the node is this machine and runs systemd
	Check     func(context.Context) error // returns an error unless the shim forwards calls
}

// On begins the bypass and stops the shim. began is false if the bypass was on before. If the units
// cannot be stopped, it has begun nevertheless.
func (s *Switch) On(ctx context.Context, reason string) (began bool, err error) {
	active, _ := s.Bypass.Active() // Begin reports the error
	if err := s.Bypass.Begin(reason); err != nil {
		return false, err
	}
	if s.Systemd {
		err = s.Systemctl.runUnits(ctx, runningUnits, "stop")
	}
	return active == nil, err
}

// Off starts the shim and ends the bypass. If the shim does not serve, the bypass stays. ended is false
// if the bypass was off before.
func (s *Switch) Off(ctx context.Context) (ended bool, err error) {
	record, err := s.Bypass.Active()
	if err != nil {
		return false, err
	}
	if err := s.Bypass.End(); err != nil || !s.Systemd || record == nil {
		return err == nil && record != nil, err
	}
	err = s.start(ctx)
	if err == nil {
		return true, nil
	}
	if again := s.Bypass.Begin(record.Reason); again != nil {
		return false, fmt.Errorf("%w; the bypass cannot be restored: %w", err, again)
	}
	_ = s.Systemctl.runUnits(context.WithoutCancel(ctx), runningUnits, "stop") // the link matters, not the unit
	return false, fmt.Errorf("the shim does not serve, the bypass stays: %w", err)
}

// start starts the units of the shim, and checks that it serves.
func (s *Switch) start(ctx context.Context) error {
	_ = s.Systemctl.runUnits(ctx, allUnits, "reset-failed") // fails for a unit that is not loaded
	if err := s.Systemctl.runUnits(ctx, runningUnits, "start"); err != nil {
		return err
	}
	return s.Check(ctx)
}
