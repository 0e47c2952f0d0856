// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile

import (
	"time"

	"golang.org/x/sys/unix"
)

// uptime returns the time of CLOCK_MONOTONIC, which relay and agent have in common: the kernel has
// one for all processes without a time namespace of their own, and container runtimes give pods
// none. A time.Time has it, too, but loses it on the way to another process.
func uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0 // not known
	}
	return time.Duration(t.Nano())
}
