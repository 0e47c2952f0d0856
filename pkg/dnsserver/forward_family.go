// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// A C library queries A and AAAA at once. If it gets NODATA for one and SERVFAIL for the other,
// glibc concludes that the name has no addresses (EAI_NODATA), although it may have: test/libc
// shows that. Most names have one family only, so NODATA is usual. The SERVFAIL comes from a server
// that fails between the two queries, or from a cache that has one of the replies. Therefore NODATA
// for one family is only forwarded together with an answer for the other one.

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

// knowsOtherFamily reports whether NODATA may be the answer to q: a query for the other address
// family gets an answer from the cache, or is not to be expected.
func (s *Server) knowsOtherFamily(q *query, to destination) bool {
	key := q.cacheKey(to.searchKey)
	key.Type = otherFamily(q.qtype)
	return key.Type == 0 || q.pairs || s.cfg.Cache.Holds(key, q.received)
}

// unpaired is the result for a cache hit with NODATA while nothing is cached for the other family.
// A stale hit is not used: the other family has no stale answer.
func (s *Server) unpaired(q *query, fwd *Forwarding, to destination, hit *cache.Hit) result {
	if hit.State != cache.Fresh && hit.State != cache.Expiring {
		return s.waiting(q, fwd, to, nil)
	}
	noData := q.cachedAnswer(hit, fromCache, nil)
	wait := func(ctx context.Context) answer { return s.confirm(ctx, q, to, noData.withRecords()) }
	return result{wait: wait, work: s.workFor(q.name, to)}
}

// confirm returns the answer a to q. If it is NODATA for an address family, confirm resolves the
// other one, and returns a failure if that fails. A client that has sent both queries shares the
// query to the other servers.
func (s *Server) confirm(ctx context.Context, q *query, to destination, a answer) answer {
	if !a.noData(q.qtype) || s.knowsOtherFamily(q, to) {
		return a
	}
	other := q.subquery(q.name, otherFamily(q.qtype))
	other.pairs = true
	if o := s.forward(ctx, other, nil).await(ctx); o.failed() {
		return failure(o.source, dns.ExtendedErrorCodeNoReachableAuthority, "no server answered for the other address family")
	}
	return a
}

// noData reports whether the answer, which has records, is NODATA for a type: the name exists,
// perhaps as an alias, without records of the type.
func (a *answer) noData(qtype uint16) bool {
	return a.rcode == dns.RcodeSuccess && !a.truncated &&
		!slices.ContainsFunc(a.answer, func(rr dns.RR) bool { return rr.Header().Rrtype == qtype })
}
