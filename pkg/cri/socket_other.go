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

// Listen is for Linux, where the peer of a socket can be asked for.
func Listen(string) (net.Listener, error) {
	return nil, errLinuxOnly
}

// Inherit is for Linux, as Listen.
func Inherit(string, *os.File) (net.Listener, error) {
	return nil, errLinuxOnly
}
