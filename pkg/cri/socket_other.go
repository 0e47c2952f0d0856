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
func Listen(string) (*Listener, error) {
	return nil, errLinuxOnly
}

// CheckListen is implemented on Linux only, like Listen.
func CheckListen(string) error {
	return errLinuxOnly
}

// Inherit is implemented on Linux only, like Listen.
func Inherit(string, *os.File) (*Listener, error) {
	return nil, errLinuxOnly
}

// A Listener does not exist on other systems.
type Listener struct{ net.Listener }

// HoldLock is implemented on Linux only, like Listen.
func (*Listener) HoldLock() (release func()) { return func() {} }

func (*Listener) awaitServed() {}
