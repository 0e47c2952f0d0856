// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "os/exec"

// endWithParent does nothing: only Linux can.
func endWithParent(*exec.Cmd) {}
