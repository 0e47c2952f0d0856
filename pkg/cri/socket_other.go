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

// Handoff is a listener that another shim passes to this one.
type Handoff struct {
	Path         string
	RemoveSocket bool
	Socket, Lock *os.File
}

// TakeOver is implemented on Linux only, like Listen.
func TakeOver(Handoff) (*Listener, error) {
	return nil, errLinuxOnly
}

// A Listener does not exist on other systems.
type Listener struct{ net.Listener }

// Handoff is implemented on Linux only, like Listen.
func (*Listener) Handoff() (Handoff, error) {
	return Handoff{}, errLinuxOnly
}

// Accepting is implemented on Linux only, like Listen.
func (*Listener) Accepting() <-chan struct{} { return nil }

// HoldLock is implemented on Linux only, like Listen.
func (*Listener) HoldLock() (release func()) { return func() {} }

func (*Listener) awaitServed() {}

// KeepSocket is implemented on Linux only, like Listen.
func (*Listener) KeepSocket() {}
