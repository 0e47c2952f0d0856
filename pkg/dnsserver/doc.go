// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsserver is the cluster DNS server: it answers the cluster's names from a
// [zone.Zone], and everything else from upstream servers through a [cache.Cache]. Without
// a zone it is a node cache: it forwards the cluster's names to the cluster DNS server, and
// the names below the autopath suffix with their search list.
//
//	udp.go, tcp.go   a packet
//	      |
//	  query.go       parsed once, or rejected
//	      |
//	  server.go      resolve: the sources, in the order documented on Server
//	      |
//	  search.go      a search list: walk.go and lookup.go try its candidates in the sources below
//	      |
//	  zone.go        the cluster's names
//	      |
//	  forward.go     the cache, then stub domains and upstream servers
//	      |
//	  reply.go       the reply, within the size that the client accepts
//	      |
//	udp.go, tcp.go   sent and counted
//
// A source never blocks. It returns a result: an answer in wire form, an answer as
// records, or a function that waits for other servers. The server calls that function in
// another goroutine, so that a slow upstream server never delays the cluster's names.
//
// Until the zone is loaded the cluster's names get SERVFAIL, never NXDOMAIN. Everything
// else is forwarded from the first packet on.
//
// The API of this package may change in any release.
package dnsserver
