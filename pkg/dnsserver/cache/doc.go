// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package cache keeps the replies of upstream servers.
//
// It exists because most of what pods ask beyond the cluster is asked again within
// seconds. A reply is kept in wire form beside the offsets of its TTLs, so that a hit
// is a copy of bytes: [Cache.Get] and [Hit.Append] take no lock and no memory.
//
//	          hash(name, type, class, DO, CD, search paths)
//	                |
//	buckets:  [ ][*][ ][*]...     readers follow atomic pointers,
//	              |     |         writers hold one mutex
//	            entry  entry --> entry
//	              |
//	           header | question, lower case | records ... TTL ... TTL ...
//	                    ^ replaced by the asker's own spelling
//
// A reply is packed so that its owner names point at the question where they can.
// So they are spelled as the asker spelled them, whoever asked first (RFC 1034
// section 3.6, RFC 4343 section 4.1).
//
// # What is kept
//
// Answers for their smallest TTL; names and data that do not exist for the smaller of
// TTL and MINIMUM of the SOA (RFC 2308); failures for [FailureTTL] (RFC 9520). Not
// kept, because they would be wrong for the next asker: truncated replies, negative
// ones without an SOA, chains of CNAMEs that end nowhere, replies whose TTL is zero.
//
// An answer past its TTL is kept for another Config.MaxStale. What is made of it is
// the caller's decision, which [State] prepares (RFC 8767).
//
// # The caller's duties
//
// In front of an upstream, with now and to as the query gives them:
//
//	hit := c.Get(q, now)
//	switch hit.State {
//	case cache.Fresh, cache.Failing:
//		return hit.Append(buf, to)
//	case cache.Expiring:
//		// start a refresh, which ends in c.Put; answer as above
//	case cache.Stale:
//		// ask and c.Put; after a failure or 1.8 s (RFC 8767 section 5) answer as above
//	case cache.Miss:
//		// ask and c.Put
//	}
//
// The clock is the caller's: times are arguments, so that one reading can serve a
// batch of packets. Replies are kept without their OPT record; the caller adds its
// own, and fits the message to the asker's size. When no reply comes, the caller's own
// SERVFAIL is what is put.
package cache
