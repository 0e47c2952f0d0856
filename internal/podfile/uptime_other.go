// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package podfile

import "time"

// uptime returns 0, not known: relay and agent run on Linux.
func uptime() time.Duration { return 0 }
