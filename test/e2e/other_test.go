// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package e2e

import "testing"

func TestE2E(t *testing.T) { t.Skip("needs the namespaces and the container runtimes of Linux") }
