// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache caches the replies of upstream servers. Pods repeat most of their queries for names outside of the cluster
// within seconds. A reply is stored in wire form, with the offsets of its TTLs, so that a hit is a copy of bytes:
// [Cache.Get] and [Hit.Append] take no lock and allocate nothing.
//
//	          hash(name, type, class, DO, CD, search paths)
//	                |
//	buckets:  [ ][*][ ][*]...     readers follow atomic pointers, writers hold one mutex
//	              |     |
//	            entry  entry --> entry: header | question, lower case | records ... TTL ... TTL ...
//
// A hit has the question of the client. A reply is packed so that its owner names point at the question where possible. They
// then have the case of the client's question, whichever client's query filled the cache (RFC 1034 section 3.6, RFC 4343
// section 4.1).
//
// Answers are cached for their smallest TTL, NXDOMAIN and NODATA for the smaller of TTL and MINIMUM of the SOA (RFC 2308),
// all other rcodes for the smaller of [FailureTTL] and [PutOptions.RetryInterval] (RFC 9520). Not cached, because they would
// be wrong for another client, are truncated replies, NXDOMAIN without an SOA, CNAME chains without an end, and replies with
// a TTL of zero. Records that do not belong to the question are dropped.
//
// An answer is retained for MaxStale after its TTL. Whether it is used then is the decision of the caller, based on
// [State] (RFC 8767). With [PutOptions.LastKnownGood] an answer whose name is denied becomes stale, and is retained for that
// time.
//
// [Cache.Get] returns a [Hit] for a query, and its [State] tells the caller to answer with it, to forward, or both.
// [Cache.Put] takes each reply. Times are arguments, so that one reading of the clock serves a batch of packets. Replies are
// stored without their OPT record; the caller adds its own. If no reply arrives, the caller puts a SERVFAIL of its own.
package cache
