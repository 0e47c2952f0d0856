// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package neighbours looks names up with programs and libraries that parse resolv.conf themselves,
// each in files that package podfile has written: by a first write, two refreshes and a
// restoration. test/libc compares what a few libraries read; here, a reader only has to work.
//
// The readers are programs that Debian packages, a BusyBox that the test links with musl, as in
// Alpine, and programs of this repository. They run in a network namespace, in which each text has
// its own DNS servers. This needs root on Linux, and once the packages (30 s, 30 MB) and BusyBox (20 s).
//
// The package also runs DNS servers that Debian packages in front of the cluster DNS server.
package neighbours
