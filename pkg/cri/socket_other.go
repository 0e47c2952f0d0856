// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cri

import (
	"errors"
	"net"
	"os"
)

var errLinuxOnly = errors.New("the shim runs on Linux only")

// Listen is implemented on Linux only: it needs the user ID of a socket's peer.
func Listen(string) (net.Listener, error) {
	return nil, errLinuxOnly
}

// Inherit is implemented on Linux only, like Listen.
func Inherit(string, *os.File) (net.Listener, error) {
	return nil, errLinuxOnly
}
