// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package systemd

import "testing"

func TestSystemd(t *testing.T) { t.Skip("needs systemd-nspawn, which runs on Linux") }
