// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package node

import "testing"

func TestNode(t *testing.T) { t.Skip("needs the namespaces and the container runtimes of Linux") }
