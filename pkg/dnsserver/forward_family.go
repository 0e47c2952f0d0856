// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// A C library sends queries for A and AAAA at once. If one reply is NODATA and the other one
// SERVFAIL, glibc concludes that the name has no addresses (EAI_NODATA), although it may have some:
// test/libc shows that. Most names have addresses of one family only, so NODATA is usual. SERVFAIL
// is the reply if the servers fail between the two queries, or fail while only one of the two
// replies is cached. Therefore the server replies NODATA for one family only if it has an answer
// for the other family as well.

// otherFamily returns AAAA for A and the reverse, and 0 for all other types.
func otherFamily(qtype uint16) uint16 {
	switch qtype {
	case dns.TypeA:
		return dns.TypeAAAA
	case dns.TypeAAAA:
		return dns.TypeA
	}
	return 0
}

// mayReplyNoData reports whether NODATA may be the answer to q: the cache has an answer for the
// other address family, or q is not one of the two queries of a C library.
func (s *Server) mayReplyNoData(q *query, to destination) bool {
	key := q.cacheKey(to.searchKey)
	key.Type = otherFamily(q.qtype)
	return key.Type == 0 || q.noFamilyCheck || s.cfg.Cache.Holds(key, q.received)
}

// confirmLater returns the result for a cache hit with NODATA while nothing is cached for the other
// address family. A stale NODATA is not used: if the servers fail, the other family gets SERVFAIL,
// because it has no stale answer.
func (s *Server) confirmLater(q *query, to destination, hit *cache.Hit) result {
	switch {
	case hit.State == cache.Failing && q.received.Sub(hit.FailedAt) < cache.FailureTTL:
		return result{answer: otherFamilyFailure(fromStale)} // the last query has just failed: like a cached SERVFAIL
	case hit.State == cache.Failing, hit.State == cache.Stale:
		return s.sendLater(q, to, nil)
	}
	noData := q.cachedAnswer(hit, fromCache, nil)
	isLong := len(noData.wire) > maxHeldNegative
	if isLong { // only over TCP: over UDP it has at most maxUDP octets
		noData = noData.withRecords().trimNegative()
	}
	wait := func(ctx context.Context) answer {
		a := s.confirmNoData(ctx, q, to, noData.withRecords())
		if isLong && !a.failed() {
			return s.restoreNegative(q, to, a)
		}
		return a
	}
	return result{wait: wait, kind: to.kindOf(q.name)}
}

// confirmNoData returns the answer a to q. If a is NODATA for one address family, it resolves the
// other one, and returns a failure if that fails, or the refusal if that is refused. If the client
// has sent the query for the other family, too, it is sent to the other servers only once: package
// upstream merges equal queries.
func (s *Server) confirmNoData(ctx context.Context, q *query, to destination, a answer) answer {
	if !a.noData(q.qtype) || s.mayReplyNoData(q, to) {
		return a
	}
	isLong := a.isLongNegative()
	if isLong {
		a = a.trimNegative() // the records that are left out can be freed while the server waits
	}
	other := q.subquery(q.name, otherFamily(q.qtype))
	other.noFamilyCheck = true
	switch o := s.forward(ctx, other, nil).await(ctx); {
	case o.refused != notRefused:
		return o
	case o.failed():
		return otherFamilyFailure(o.source)
	}
	if isLong {
		return s.restoreNegative(q, to, a)
	}
	return a
}

func otherFamilyFailure(from source) answer {
	return failure(from, dns.ExtendedErrorCodeNoReachableAuthority, "resolving the other address family failed")
}

// restoreNegative returns the complete answer to q that trimNegative has cut to a. The complete
// answer was cached before the wait. restoreNegative returns a if the client does not validate, and
// so needs no proof that the records do not exist, or if the cache has evicted the answer.
func (s *Server) restoreNegative(q *query, to destination, a answer) answer {
	if !q.do {
		return a
	}
	now := time.Now()
	if hit := s.cfg.Cache.Peek(q.cacheKey(to.searchKey), now); hit.State == cache.Fresh && hit.NoData() {
		return q.cachedAnswer(&hit, a.source, nil).withRecords()
	}
	return a
}

// noData reports whether the answer is NODATA for a type: the name exists, perhaps as an alias,
// without records of the type. The answer must not be in wire form.
func (a *answer) noData(qtype uint16) bool {
	return a.rcode == dns.RcodeSuccess && !a.truncated &&
		!slices.ContainsFunc(a.answers, func(rr dns.RR) bool { return rr.Header().Rrtype == qtype })
}
