// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodenet

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

var errNotLinux = errors.New("dummy interfaces and NOTRACK rules exist on Linux only")

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

// Rules are the rules of one instance.
type Rules struct{}

// Install is implemented on Linux only.
func Install([]Address) (*Rules, error) { return nil, errNotLinux }

// Remove removes the rules.
func (r *Rules) Remove() {}

// Revoke ends the leases.
func (r *Rules) Revoke() {}

// SetFallback is implemented on Linux only.
func SetFallback(addrs, servers []netip.AddrPort) error { return errNotLinux }

// ProbeDialer opens sockets as any other dialer.
func ProbeDialer(bool) *net.Dialer { return &net.Dialer{} }
