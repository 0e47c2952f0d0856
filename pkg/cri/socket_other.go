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

// CheckDirectory is implemented on Linux only, like Listen.
func CheckDirectory(string) error {
	return errLinuxOnly
}

// Inherit is implemented on Linux only, like Listen.
func Inherit(string, *os.File) (net.Listener, error) {
	return nil, errLinuxOnly
}

// listener does not exist on other systems.
type listener struct{ net.Listener }

func (*listener) holdLock() (release func()) { return func() {} }
