// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package libc compares resolvconf.Glibc and resolvconf.Musl, and the players of
// package internal/libc, with the C libraries themselves. What these make of a
// resolv.conf and of an answer is written in no manual page, not to the byte, and
// the findings of the engine and the command lookup rest on it.
//
// Small C programs, in testdata, tell what a library understood and look up
// names. They run in namespaces of their own, where /etc is a directory of the
// test and the only interface is the loopback: no packet leaves it. This needs
// root on Linux, gcc and musl-gcc, which the test installs on Debian. It knows
// glibc 2.36 and musl 1.2.3; with others it fails where they differ, which is
// then to be written down in those packages.
package libc
