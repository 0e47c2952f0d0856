// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package libc simulates the resolver of a container's C library, or of Go: it looks a
// name up with the queries that glibc 2.36 to 2.41, musl 1.2.5 or 1.2.3, or package net
// would send for a given resolv.conf.
//
// Package resolvconf parses the file as each library does. This package implements
// what follows from it on the wire: which names are tried in which order, which server
// is queried when, how a reply affects the search, and what the program receives. The
// libraries have little in common there. test/libc runs each library beside its
// simulator and compares every query and every result.
//
// The package opens no sockets. A [Simulator] is given a [Network], which carries one
// query to one server.
//
// Not simulated: the order of addresses, which getaddrinfo(3) takes from the routes of
// the host (RFC 6724); HOSTALIASES, LOCALDOMAIN and RES_OPTIONS; sortlist; nscd and
// services of nsswitch.conf other than "files dns"; cgo; and replies for which a library
// waits longer than its caller.
package libc
