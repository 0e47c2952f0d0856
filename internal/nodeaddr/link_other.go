// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodeaddr

import (
	"errors"
	"net/netip"
)

// Ensure is for Linux.
func Ensure(string, []netip.Addr) error {
	return errors.New("dummy interfaces are made on Linux only")
}
