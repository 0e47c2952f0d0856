// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package upstream

import "syscall"

// setPathMTU is a no-op: the option is Linux's.
func setPathMTU(string, string, syscall.RawConn) error { return nil }
