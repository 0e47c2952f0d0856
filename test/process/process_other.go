// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "os/exec"

// endWithParent is a no-op: only Linux has this.
func endWithParent(*exec.Cmd) {}
