// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckEndpoints returns an error if the socket of the shim and that of the runtime are one
// file. The shim would forward each call to itself until it runs out of memory. Paths that do not
// exist yet are compared as far as their directories exist.
func CheckEndpoints(listen, runtime string) error {
	if resolve(listen) == resolve(runtime) || sameSocket(listen, runtime) {
		return fmt.Errorf("runtime endpoint %q is the socket of the shim %q: set runtimeEndpoint to "+
			"the socket of the container runtime", runtime, listen)
	}
	return nil
}

// resolve returns path without symbolic links, as far as it exists.
func resolve(path string) string {
	dir, rest := path, ""
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Join(path)
		}
		dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest)
	}
}

// sameSocket reports whether both paths lead to one file. A bind mount has the device and the
// inode of its source.
func sameSocket(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
