// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a server process: its tasks and the order in which they stop, its
// log, its HTTP endpoints for metrics and health, and the reload of its configuration.
package daemon
