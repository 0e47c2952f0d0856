// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// candidateLookup looks up the candidates of one walk.
type candidateLookup struct {
	s                 *Server
	q                 *query
	snapshot          *zone.Snapshot
	forwarded         atomic.Int64 // subqueries to other servers
	outsideSubqueries atomic.Int64 // those that count for maxSubqueries, also if they are refused
}

// lookup looks up a candidate; see lookupFunc. Subqueries to other servers may outlive the
// walk, until ctx ends: the next walk then finds their answers in the cache.
func (c *candidateLookup) lookup(ctx context.Context, name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
	status, _, node := c.s.lookupZone(c.snapshot, name)
	switch hasRules := c.s.hasRules(name); {
	case hasRules:
		if _, inDomain := name.Within(c.s.cfg.Domain); !inDomain {
			return c.lookupTypes(ctx, name)
		}
		return c.lookupCluster(ctx, name)
	case status == zone.Exists && node.Alias != "": // the result is that of the target
		return c.lookupCluster(ctx, name)
	case status == zone.NotInZone:
		lr, wait := c.lookupForwarded(ctx, name)
		lr.cluster = c.isCluster(name)
		return lr, wait
	}
	lr := lookupResult{cluster: true, outcome: nxdomain, ttl: c.s.negativeTTL(c.snapshot)}
	if status == zone.NXDomain {
		return lr, nil
	}
	r, _ := c.s.zoneRecords(ctx, c.q.subquery(name, c.q.qtype), c.snapshot)
	lr.answer = r.answer
	switch { // a Large zone.Node has its addresses neither in V4 nor in V6
	case status == zone.Unknown:
		lr.outcome = unresolved
	case node.Large, len(node.V4)+len(node.V6)+len(lr.answer.answers) > 0:
		lr.outcome = found
	default:
		lr.outcome = nodata
	}
	return lr, nil
}

// isCluster reports whether a node cache forwards a name to the cluster DNS.
func (c *candidateLookup) isCluster(name fqdn.Name) bool {
	return c.s.nodeCache && c.s.forwarding.Load().stubFor(name).Zone == c.s.cfg.Domain
}

// lookupCluster is lookupTypes for a name of the cluster.
func (c *candidateLookup) lookupCluster(ctx context.Context, name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
	lr, wait := c.lookupTypes(ctx, name)
	markCluster := func(lr lookupResult) lookupResult {
		lr.cluster, lr.ttl = true, min(lr.ttl, c.s.negativeTTL(c.snapshot))
		return lr
	}
	if wait == nil {
		return markCluster(lr), nil
	}
	return lookupResult{cluster: true}, func(ctx context.Context) lookupResult { return markCluster(wait(ctx)) }
}

// lookupForwarded is lookup for the names that other servers answer. Most of them do not
// exist: the fast path for a cached NXDOMAIN builds no records.
func (c *candidateLookup) lookupForwarded(ctx context.Context, name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
	key := cache.Question{Name: []byte(name), Type: dns.TypeA, Class: dns.ClassINET, CD: c.q.flags&flagCD != 0, DO: c.q.do}
	if ttl, ok := c.s.cfg.Cache.NXDomainTTL(key, c.q.received); ok {
		c.s.metrics.cacheLookups[cache.Fresh].Inc()
		return lookupResult{outcome: nxdomain, ttl: ttl}, nil
	}
	return c.lookupTypes(ctx, name)
}

// typeLookups are the subqueries for one candidate. The first one is for type A.
type typeLookups []typeLookup

// typeLookup is a subquery for the records of one type.
type typeLookup struct {
	qtype uint16
	result
}

// lookupTypes resolves the subqueries for a candidate. It begins with type A for queries of all
// types: most candidates do not exist, and one query is enough to know that. It returns the
// result, or a function that waits for it.
func (c *candidateLookup) lookupTypes(ctx context.Context, name fqdn.Name) (lookupResult, func(context.Context) lookupResult) {
	start := func(qtype uint16) typeLookup {
		r := c.s.answerName(ctx, c.q.subquery(name, qtype), nil)
		r.answer = r.answer.withRecords()
		return typeLookup{qtype: qtype, result: r}
	}
	all := typeLookups{start(dns.TypeA)}
	addTypes := func() (added bool) {
		missing := all.missingTypes(c.q.qtype)
		for _, qtype := range missing {
			all = append(all, start(qtype))
		}
		return len(missing) > 0
	}
	addTypes()
	isPending := func(l typeLookup) bool { return l.wait != nil }
	if !slices.ContainsFunc(all, isPending) || all.ownsType(c.q.qtype) {
		return all.combine(c.q.qtype), nil
	}
	return lookupResult{}, func(walkCtx context.Context) lookupResult {
		c.await(ctx, walkCtx, name, all)
		if addTypes() {
			c.await(ctx, walkCtx, name, all)
		}
		return all.combine(c.q.qtype)
	}
}

// missingTypes returns the types that have to be looked up after A: the client's type if the name
// exists, and AAAA if there is no A record. So queries of all types lead to the same candidate.
// It returns none if the answer for A is pending.
func (all typeLookups) missingTypes(qtype uint16) (types []uint16) {
	a := &all[0]
	if len(all) > 1 || a.wait != nil || a.nxdomain() || a.failed() {
		return nil
	}
	if !a.owns() {
		types = append(types, dns.TypeAAAA)
	}
	if qtype != dns.TypeA && !slices.Contains(types, qtype) {
		types = append(types, qtype)
	}
	return types
}

// await sends all pending subqueries for a candidate at once, and waits for their answers or until
// walkCtx ends. If the candidate owns records of the client's type, it does not wait for the other
// types. The subqueries continue until ctx ends.
func (c *candidateLookup) await(ctx, walkCtx context.Context, name fqdn.Name, all typeLookups) {
	type completed struct {
		index  int
		answer answer
	}
	completions := make(chan completed, len(all)) // a late answer blocks no goroutine
	all.trim(c.q.qtype)
	pending := 0
	for i, l := range all {
		if l.wait == nil {
			continue
		}
		pending++
		a, wait := c.admit(name, l.result)
		if wait == nil {
			completions <- completed{i, a.withRecords()}
			continue
		}
		c.s.goTracked(ctx, func(ctx context.Context) { completions <- completed{i, wait(ctx).withRecords()} })
	}
	for ; pending > 0 && !all.ownsType(c.q.qtype); pending-- {
		select {
		case r := <-completions:
			all[r.index].result = result{answer: r.answer}
			all.trim(c.q.qtype)
		case <-walkCtx.Done():
			return
		}
	}
}

// admit is Server.admit for a subquery for a candidate, within the limit of the walk. Subqueries of a node cache for
// names of the cluster zone do not count for maxSubqueries: the cluster DNS has their answers in memory.
func (c *candidateLookup) admit(name fqdn.Name, r result) (a answer, wait func(context.Context) answer) {
	if !c.isCluster(name) && c.outsideSubqueries.Add(1) > maxSubqueries {
		return c.s.refuse(kindSearch, refusedSubqueries), nil
	}
	c.forwarded.Add(1)
	r.kind = kindSearch
	return c.s.admit(c.q.client, r)
}

// ownsType reports whether the candidate owns records of the client's type. The other types then do
// not change the result.
func (all typeLookups) ownsType(qtype uint16) bool {
	return slices.ContainsFunc(all, func(l typeLookup) bool { return l.qtype == qtype && l.owns() })
}

// trim removes records that combine does not need from the answers, so that they can be freed while
// other subqueries wait. If the type is not the client's, a single record is kept.
func (all typeLookups) trim(qtype uint16) {
	for i := range all {
		switch l := &all[i]; {
		case l.wait != nil:
		case !l.owns():
			l.answer = l.answer.trimNegative()
		case l.qtype != qtype:
			l.answer = answer{source: l.source, answers: firstOfType(l.answer.answers, l.qtype, 1)}
		}
	}
}

// combine merges the answers to one result. A pending subquery counts as failed. The answer of the result is that for
// the client's type, or that for A if the client's type was not looked up. If the name has addresses, it is found,
// even if the subquery for the client's type failed. The failure is then the answer, and no later candidate is tried.
//
// NXDOMAIN for A holds for the name (RFC 8020), whatever the answers for other types say. The reverse is not true:
// some servers return NXDOMAIN for every type that they do not know (RFC 4074 section 4.2).
func (all typeLookups) combine(qtype uint16) lookupResult {
	lr := lookupResult{outcome: nodata, ttl: noLimit}
	owned := false
	for i := range all {
		l := &all[i]
		if l.wait != nil {
			l.result = result{answer: failure(fromServer, dns.ExtendedErrorCodeNoReachableAuthority,
				"timeout while expanding the search list")}
		}
		if l.qtype == qtype || i == 0 {
			lr.answer = l.answer
		}
		owned = owned || l.owns()
	}
	if owned {
		return lookupResult{outcome: found, answer: lr.answer}
	}
	if a := &all[0]; a.nxdomain() {
		return lookupResult{outcome: nxdomain, answer: a.trimNegative(), ttl: a.negativeTTL()}
	}
	for i := range all {
		l := &all[i]
		if l.failed() {
			return lookupResult{outcome: unresolved, answer: l.trimNegative()}
		}
		lr.ttl = min(lr.ttl, l.negativeTTL())
	}
	lr.answer = lr.answer.trimNegative() // the walk may hold it while it waits for other candidates
	// NODATA, also for a CNAME whose target does not exist: its owner exists.
	return lr
}

// nxdomain reports whether the answer says that the name itself does not exist.
func (l *typeLookup) nxdomain() bool {
	return l.wait == nil && l.rcode == dns.RcodeNameError && len(l.answer.answers) == 0
}

// owns reports whether the name has records of the type, perhaps through an alias. An alias alone does not count.
func (l *typeLookup) owns() bool {
	return l.wait == nil && l.qtype != dns.TypeCNAME && l.rcode == dns.RcodeSuccess &&
		slices.ContainsFunc(l.answer.answers, func(rr dns.RR) bool { return rr.Header().Rrtype == l.qtype })
}
