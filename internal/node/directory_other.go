// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import "io/fs"

// isDeleted is implemented on Linux only.
func isDeleted(fs.FileInfo) bool { return false }
