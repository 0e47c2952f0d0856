// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a server process: its tasks and the order in which they stop, its
// log, its HTTP endpoints for metrics and health, and the reload of its configuration.
//
// It implements the two protocols with systemd: socket activation (sd_listen_fds(3)) and notification
// (sd_notify(3), sd_watchdog_enabled(3)). Without systemd they do nothing.
package daemon
