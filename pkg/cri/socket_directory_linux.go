// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckDirectory returns an error if another user could replace the socket in dir, or one of
// the directories that lead to it, and so receive the kubelet's calls.
func CheckDirectory(dir string) error {
	if err := checkOwner(dir); err != nil {
		return err
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("checking the socket directory %s: %w", dir, err)
	}
	for _, path := range []string{filepath.Clean(dir), resolved} { // a link above dir can be replaced, too
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
	owned := st.Uid == 0 || int(st.Uid) == os.Geteuid()
	if !owned || st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%s above the socket directory %s has owner %d and mode %#o: another user "+
			"could replace the socket: choose another path",
			parent, dir, st.Uid, st.Mode&0o1777)
	}
	return nil
}
