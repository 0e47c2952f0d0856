// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd is a server's side of its bargain with the service manager that
// started it: the socket that it was handed (sd_listen_fds(3)) and the news that it
// owes (sd_notify(3), sd_watchdog_enabled(3)). Servers and their commands need both,
// and neither the other. Without such a manager all of it does nothing.
package systemd
