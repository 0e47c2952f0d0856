// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package libc compares resolvconf.Glibc and resolvconf.Musl, and the simulators of
// package internal/libc, with the C libraries themselves. No manual page specifies
// exactly how a library reads a resolv.conf or an answer, and the findings of the engine
// and the command lookup depend on it.
//
// Small C programs in testdata print what a library has read and look up names. They
// run in their own namespaces, where /etc is a directory of the test and the only
// interface is the loopback: no packet leaves it. This needs root on Linux, gcc and
// musl-gcc, which the test installs on Debian. The expected results are those of glibc
// 2.36 and musl 1.2.3. With another version the test fails where the version differs;
// the difference then belongs into those packages.
package libc
