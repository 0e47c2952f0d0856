//go:build !linux

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import "os/exec"

// endWithParent does nothing: only Linux can.
func endWithParent(*exec.Cmd) {}
