// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsserver implements a DNS server with two roles. With a [zone.Zone] it is the cluster DNS server: it answers
// queries for the cluster zone from the zone, and forwards all others to upstream servers, through a [cache.Cache].
// Without a zone it is a node cache: it forwards queries for the cluster zone to the cluster DNS server. With
// Forwarding.Expander it also sends names below the autopath domain there, with their search list.
//
//	udp.go, tcp.go   a packet
//	  query.go       parsed once
//	  server.go      answer: the sources, in the order documented on Server
//	  search.go      a search list: walk.go and lookup.go try its candidates in the sources below
//	  zone.go        the cluster zone
//	  forward.go     the cache, then stub domains and upstream servers
//	  reply.go       the reply, within the size that the client accepts
//	udp.go, tcp.go   counted and sent
//
// A source never blocks. It returns a result: an answer in wire form, an answer as records, or a function that waits for
// other servers. The server takes a slot (limits.go) and calls that function in another goroutine, so that a slow
// upstream server never delays the cluster zone.
//
// Until the zone is loaded, its names get SERVFAIL, never NXDOMAIN. So do the reverse names of private addresses if the
// zone has no configured reverse ranges, because they may be those of the cluster. All other names are answered from the
// first packet on.
//
// New starts no goroutine. Run owns all goroutines and waits for them: one to eight for each UDP socket, see reader; one
// for each TCP listener and connection; one for each prefetch and each query that waits for other servers, one more for
// each of its candidates and subqueries, and one more if a stale answer can be the reply before the wait ends. A limiter
// divides slots among clients, for the queries that wait, the TCP connections, and the replies over TCP that their
// clients have not read.
//
// The API of this package may change in any release.
package dnsserver
