// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd tests the package of the shim on a Debian machine with a real systemd and a
// real containerd, in a container of systemd-nspawn. A client inside calls the container runtime
// through the shim's socket and reports failed calls while the shim is restarted, killed, upgraded
// and bypassed after a crash loop. Then the machine loses power and boots, the bypass ends, and the
// package is removed.
//
// This needs root on Linux, and a clone that is not a linked worktree, as every build of the
// packages does. The test installs debootstrap and systemd-container if they are
// missing, and keeps the file system of the machine in the user's cache directory.
package systemd
