// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package libc

import (
	"errors"
	"testing"
)

const hostname, hostDomain = "", ""

func isolate(t *testing.T) string {
	t.Helper()
	t.Skip("needs the namespaces of Linux")
	return ""
}

func enter(string) error { return errors.New("needs the namespaces of Linux") }

func crashed(error) bool { return false }
