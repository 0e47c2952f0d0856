// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package resolvconf reads and writes resolv.conf(5).
//
// There is no one reading of this file: the kubelet, glibc and musl each
// understand it in their own way, and a pod's DNS depends on all three. [Parse]
// reads it as the kubelet does, which decides what a pod gets from its host;
// [Glibc] and [Musl] tell what the C library in a container makes of what it got.
// Every reader is total: it never fails, and reports what it ignored and in which
// line.
//
// It is a leaf package: the policy engine, the watcher of the host's file, the
// shim and the lookup command all depend on it. It opens no files.
package resolvconf
