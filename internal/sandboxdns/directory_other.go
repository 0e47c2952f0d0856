// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandboxdns

import "io/fs"

// isDeleted is implemented on Linux only.
func isDeleted(fs.FileInfo) bool { return false }
