// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsserver is the cluster DNS server: it answers queries for the cluster zone from a
// [zone.Zone], and forwards all others to upstream servers, through a [cache.Cache]. Without a
// zone it is a node cache: it forwards queries for the cluster zone to the cluster DNS server,
// and those for names below the autopath domain with their search list.
//
//	udp.go, tcp.go   a packet
//	      |
//	  query.go       parsed once, or rejected
//	      |
//	  server.go      resolve: the sources, in the order documented on Server
//	      |
//	  search.go      a search list: walk.go and lookup.go try its candidates in the sources below
//	      |
//	  zone.go        the cluster zone
//	      |
//	  forward.go     the cache, then stub domains and upstream servers
//	      |
//	  reply.go       the reply, within the size that the client accepts
//	      |
//	udp.go, tcp.go   sent and counted
//
// A source never blocks. It returns a result: an answer in wire form, an answer as
// records, or a function that waits for other servers. The server calls that function in
// another goroutine, so that a slow upstream server never delays the cluster zone.
//
// Until the zone is loaded its names get SERVFAIL, never NXDOMAIN. All other names are
// forwarded from the first packet on.
//
// # Goroutines and limits
//
// New starts no goroutine. Run owns all goroutines and waits for them: one to eight readers
// for each UDP socket, one for each TCP listener and connection, and one for each query that
// waits for other servers. Clients cannot make their number grow without bound: slots.go limits
// the waiting queries by kind, tcp_limits.go the connections and their replies, search_limit.go
// the queries that search lists cause, and budget.go the share of one client.
//
// The API of this package may change in any release.
package dnsserver
