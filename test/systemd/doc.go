// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package systemd tests the package of the shim on a Debian machine with a real systemd, a real
// containerd and a real kubelet, in a container of systemd-nspawn. The kubelet runs static pods, a
// new one in each step, and a client inside calls the container runtime through the shim's socket,
// while the shim is restarted, killed, upgraded and bypassed after a crash loop. Then the machine
// loses power and boots, the bypass ends, and the package is removed. Pods must stay ready, and the
// failed CRI calls of kubelet and client are counted.
//
// This needs root on Linux, and a clone that is not a linked worktree, as every build of the
// packages does. The test installs debootstrap, systemd-container and the tools of test/nodetools
// if they are missing, builds the kubelet of test/cluster, and keeps the file system of the machine
// in the user's cache directory.
package systemd
