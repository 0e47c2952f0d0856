// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package install

import "syscall"

// checkAccess returns an error unless the process may write to dir: on a read-only file system root may
// not either (access(2)).
func checkAccess(dir string) error {
	const write = 2 // W_OK
	return syscall.Access(dir, write)
}
