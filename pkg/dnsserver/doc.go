// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package dnsserver is the cluster DNS server: the names of the cluster from a
// [zone.Zone], everything else from upstream servers through a [cache.Cache]. Without a
// zone it is the cache on a node: the cluster DNS is then one more server that is asked,
// and the one that goes along search lists.
//
//	socket --> quick.go   from wire form to wire form: addresses, denials, cache hits
//	              |
//	           query.go   parse, refuse
//	              |
//	           server.go  the order of sources, as numbered on Server
//	              |
//	           autopath.go, autopath_walk.go   a search list, through what is below
//	              |
//	  cluster.go  zone    forward.go  cache --> upstream
//	              |                         --> expander.go  on a node: a search list,
//	              |                             by the cluster DNS, else by a walk
//	socket <-- reply.go   fit into what the client takes
//
// Sources return values. One place for each transport writes to the socket, and one
// counts.
//
// What the cluster is not known to lack is not called absent: until the zone is
// loaded its names get SERVFAIL, while everything else is forwarded from the first
// packet on.
package dnsserver
