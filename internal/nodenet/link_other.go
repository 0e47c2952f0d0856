// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodenet

import (
	"context"
	"errors"
	"net/netip"
)

var errNotLinux = errors.New("dummy interfaces exist on Linux only")

// Ensure is implemented on Linux only.
func (i Interface) Ensure() (restored []Restored, failed map[netip.Addr]error) {
	failed = map[netip.Addr]error{}
	for _, addr := range i.Addrs {
		failed[addr] = errNotLinux
	}
	return nil, failed
}

// Watch is implemented on Linux only.
func (i Interface) Watch(context.Context, func()) error { return errNotLinux }
