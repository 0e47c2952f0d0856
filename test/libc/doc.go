// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package libc compares the readers of package resolvconf and the simulators of package
// internal/libc with the C libraries and with Go's package net. No manual page specifies
// exactly how a library reads a resolv.conf or an answer, and the findings of the engine
// and the command lookup depend on it.
//
// Small programs in testdata print what a library has read and look up names. They run in
// their own namespaces, where /etc is a directory of the test and the only interface is the
// loopback: no packet leaves it. This needs root on Linux, gcc and musl-gcc, which the test
// installs on Debian, and packages of Debian 12 and 13, which it downloads once into the user's
// cache directory. The expected results come from glibc 2.36 and musl 1.2.3 of Debian
// 12, glibc 2.41 and musl 1.2.5 of Debian 13, and package net of the Go in use. With another
// version the test fails where the version differs; the difference then belongs into those
// packages. Debian fixes bugs of its releases: TestGlibc finds out which glibc has the fix of
// CVE-2026-8674.
package libc
