// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodenet

import (
	"errors"
	"net/netip"
)

// Rules are the rules of one instance.
type Rules struct{ Table string }

// Install is implemented on Linux only.
func Install([]netip.AddrPort) (*Rules, error) {
	return nil, errors.New("NOTRACK rules exist on Linux only")
}

// Remove removes the rules.
func (r *Rules) Remove() {}
