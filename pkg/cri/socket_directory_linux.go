// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckListen returns an error if [Listen] would fail at path, or at the directory that it creates, as
// far as that is known before. Whether another process uses the socket is not checked, and neither is a
// link, such as that of a bypass.
func CheckListen(path string) error {
	for file, want := range map[string]fs.FileMode{path: fs.ModeSocket, lockPath(path): 0} {
		info, err := os.Lstat(file)
		if err != nil {
			continue // absent, or the check of the directory has the reason
		}
		if kind := info.Mode().Type(); kind != want && kind != fs.ModeSymlink {
			return wrongType(file, want)
		}
	}
	dir := filepath.Dir(path)
	existing := dir
	for ; existing != "/"; existing = filepath.Dir(existing) {
		if _, err := os.Lstat(existing); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if existing == dir {
		return checkDirectory(dir)
	}
	if err := checkParent(existing, dir); err != nil {
		return err
	}
	return checkParents(existing, dir)
}

// wrongType returns the error about a file of another type than the socket or its lock.
func wrongType(file string, want fs.FileMode) error {
	kind := "regular file"
	if want == fs.ModeSocket {
		kind = "socket"
	}
	return fmt.Errorf("%s exists and is not a %s: remove it or choose another path", file, kind)
}

// checkDirectory returns an error if another user could replace the socket in dir, or one of
// the directories that lead to it, and so receive the kubelet's calls.
func checkDirectory(dir string) error {
	if err := checkOwner(dir); err != nil {
		return err
	}
	return checkParents(dir, dir)
}

// checkParents returns an error if another user could replace a directory above from.
func checkParents(from, dir string) error {
	resolved, err := filepath.EvalSymlinks(from)
	if err != nil {
		return fmt.Errorf("checking the socket directory %s: %w", dir, err)
	}
	for _, path := range []string{filepath.Clean(from), resolved} { // a link above dir can be replaced, too
		for path != "/" {
			path = filepath.Dir(path)
			if err := checkParent(path, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOwner returns an error if another user could replace the socket in dir.
func checkOwner(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("checking the socket directory %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("socket directory %s is not a directory: choose another path", dir)
	}
	if mode := st.Mode & 0o777; int(st.Uid) != os.Geteuid() || mode&0o022 != 0 {
		return fmt.Errorf("socket directory %s has owner %d and mode %#o: want owner %d, not writable by others",
			dir, st.Uid, mode, os.Geteuid())
	}
	return nil
}

// checkParent returns an error if another user could rename the entries of parent, a directory
// above dir. In a directory with the sticky bit users can rename only their own.
func checkParent(parent, dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(parent, &st); err != nil {
		return fmt.Errorf("checking %s above the socket directory: %w", parent, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s above the socket directory %s is not a directory: choose another path", parent, dir)
	}
	owned := st.Uid == 0 || int(st.Uid) == os.Geteuid()
	if !owned || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%s above the socket directory %s has owner %d and mode %#o: another user "+
			"could replace the socket: choose another path",
			parent, dir, st.Uid, st.Mode&0o1777)
	}
	return nil
}
