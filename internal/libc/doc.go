// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package libc plays the C library of a container: it looks a name up by the very
// queries that glibc 2.36 or musl 1.2.3 would send with a given resolv.conf.
//
// What a resolv.conf means is package resolvconf's; this package says what becomes
// of it on the wire: which names are tried in which order, which server is asked
// when, what an answer does to the search, and what the program gets in the end.
// The two libraries have little in common there. test/libc runs both beside their
// players and compares every query and every result.
//
// There are no sockets here. A [Player] is given a [Network], which carries one
// query to one server.
//
// Not played: the order of addresses, which getaddrinfo(3) takes from the routes
// of the host (RFC 6724); HOSTALIASES, LOCALDOMAIN and RES_OPTIONS; sortlist; nscd
// and other services of nsswitch.conf than "files dns"; and replies for which a
// library waits longer than its caller.
package libc
