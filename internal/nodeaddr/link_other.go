// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodeaddr

import (
	"errors"
	"net/netip"
)

// Ensure is implemented on Linux only.
func Ensure(string, []netip.Addr) error {
	return errors.New("dummy interfaces exist on Linux only")
}
