// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd implements the two protocols between a service and the service manager
// that started it: socket activation (sd_listen_fds(3)) and notification (sd_notify(3),
// sd_watchdog_enabled(3)). Without a service manager everything here is a no-op.
package systemd
