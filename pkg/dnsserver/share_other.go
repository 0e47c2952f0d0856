// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dnsserver

import (
	"errors"
	"syscall"
)

var errNotShared = errors.New("addresses are shared by two servers on Linux only")

func share(string, string, syscall.RawConn) error { return errNotShared }

func takeOver(syscall.Conn) error { return errNotShared }
