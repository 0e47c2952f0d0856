// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package handover

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

var errLinuxOnly = errors.New("a handover needs Linux")

// pair is implemented on Linux only: others have no sockets that keep the boundaries of messages
// and end with the process.
func pair() (own, other *os.File, err error) {
	return nil, nil, errLinuxOnly
}

// Duplicate is implemented on Linux only.
func Duplicate(syscall.Conn) (*os.File, error) { return nil, errLinuxOnly }

func isReset(error) bool { return false }

func asSibling(*exec.Cmd) {}

func closeOnExec(int) {}
