// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io/fs"
	"syscall"
)

// isDeleted reports whether a directory has no name any more: it was removed on the node, and this
// process still has its mount.
func isDeleted(directory fs.FileInfo) bool {
	s, ok := directory.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}
