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
	s         *Server
	q         *query
	snapshot  *zone.Snapshot
	forwarded atomic.Int64 // subqueries to other servers
}

// lookup looks up a candidate, as a lookupFunc. Subqueries to other servers may outlive the
// walk, until ctx ends: the next walk then finds their answers in the cache.
func (c *candidateLookup) lookup(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	status, _, node := c.snapshot.Lookup(name)
	switch {
	case status == zone.NotInZone:
		f, wait := c.lookupForwarded(ctx, name)
		_, f.cluster = name.Within(c.s.cfg.Domain) // a node cache forwards the cluster's names
		return f, wait
	case status == zone.Exists && node.Alias != "":
		return c.lookupAlias(ctx, name)
	}
	f := finding{cluster: true, outcome: nxdomain, ttl: c.s.denialTTL(c.snapshot)}
	if status == zone.NXDomain {
		return f, nil
	}
	r, _ := c.s.zoneRecords(ctx, c.q.subquery(name, c.q.qtype), c.snapshot)
	f.answer = r.answer
	switch {
	case status == zone.Unknown:
		f.outcome = unresolved
	case len(node.V4)+len(node.V6)+len(f.answer.answer) > 0:
		f.outcome = found
	default:
		f.outcome = nodata
	}
	return f, nil
}

// lookupAlias is lookup for the name of an ExternalName Service: the finding is that of the
// target.
func (c *candidateLookup) lookupAlias(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	all := c.startLookups(name, func(q *query) result {
		r, _ := c.s.zoneRecords(ctx, q, c.snapshot)
		return r
	})
	f, wait := c.findingOf(ctx, all)
	inCluster := func(f finding) finding {
		f.cluster, f.ttl = true, min(f.ttl, c.s.denialTTL(c.snapshot))
		return f
	}
	if wait == nil {
		return inCluster(f), nil
	}
	return finding{cluster: true}, func(ctx context.Context) finding { return inCluster(wait(ctx)) }
}

// lookupForwarded is lookup for the names that other servers answer. Most of them do not
// exist: the fast path for a cached NXDOMAIN builds no records.
func (c *candidateLookup) lookupForwarded(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	key := cache.Question{Name: []byte(name), Type: dns.TypeA, Class: dns.ClassINET, CD: c.q.flags&flagCD != 0, DO: c.q.do}
	if ttl, ok := c.s.cfg.Cache.NXDomainTTL(key, c.q.received); ok {
		c.s.metrics.lookups[cache.Fresh].Inc()
		return finding{outcome: nxdomain, ttl: ttl}, nil
	}
	return c.findingOf(ctx, c.startLookups(name, func(q *query) result { return c.s.forward(ctx, q, nil) }))
}

// lookups are the subqueries for one candidate. The first has the client's type.
type lookups []lookup

type lookup struct {
	qtype uint16
	result
}

// startLookups resolves the subqueries for a candidate without waiting: the client's type, A
// and AAAA. Because of A and AAAA, queries of all types lead to the same candidate if it has
// an address.
func (c *candidateLookup) startLookups(name fqdn.Name, resolve func(*query) result) lookups {
	types := []uint16{c.q.qtype, dns.TypeA, dns.TypeAAAA}
	switch c.q.qtype {
	case dns.TypeA:
		types = []uint16{dns.TypeA, dns.TypeAAAA}
	case dns.TypeAAAA:
		types = []uint16{dns.TypeAAAA, dns.TypeA}
	}
	var all lookups
	for _, qtype := range types {
		r := resolve(c.q.subquery(name, qtype))
		r.answer = r.answer.withRecords()
		all = append(all, lookup{qtype: qtype, result: r})
		if all.conclusive() {
			break
		}
	}
	return all
}

// findingOf returns the finding, or a function that waits for it.
func (c *candidateLookup) findingOf(ctx context.Context, all lookups) (finding, func(context.Context) finding) {
	if all.conclusive() || all.pending() == 0 {
		return all.combine(), nil
	}
	return finding{}, func(walkCtx context.Context) finding { return c.awaitLookups(ctx, walkCtx, all) }
}

// awaitLookups sends all pending subqueries at once. It returns as soon as more answers would
// not change the finding, or when walkCtx ends. The subqueries continue until ctx ends.
func (c *candidateLookup) awaitLookups(ctx, walkCtx context.Context, all lookups) finding {
	type completed struct {
		index  int
		answer answer
	}
	completions := make(chan completed, len(all)) // a late answer blocks no goroutine
	pending := all.pending()
	c.forwarded.Add(int64(pending))
	for i, l := range all {
		switch {
		case l.wait == nil:
		case !c.s.limits.expanded.tryAcquire():
			completions <- completed{i, failure(fromServer, dns.ExtendedErrorCodeOther, "too many search lists are being expanded")}
		default:
			c.s.goTracked(ctx, func(ctx context.Context) {
				defer c.s.limits.expanded.release()
				completions <- completed{i, l.wait(ctx).withRecords()}
			})
		}
	}
	for ; pending > 0; pending-- {
		select {
		case r := <-completions:
			all[r.index].result = result{answer: r.answer}
			if all.conclusive() {
				return all.combine()
			}
		case <-walkCtx.Done():
			return all.combine()
		}
	}
	return all.combine()
}

// pending returns the number of subqueries without an answer.
func (all lookups) pending() (n int) {
	for i := range all {
		if all[i].wait != nil {
			n++
		}
	}
	return n
}

// conclusive reports whether more answers would not change the finding.
func (all lookups) conclusive() bool {
	for i := range all {
		if l := &all[i]; l.qtype == dns.TypeA && l.wait == nil {
			return l.nxdomain() || all[0].owns()
		}
	}
	return false
}

// combine merges the answers to one finding. A pending subquery counts as failed. The name
// may be found by its addresses although the client's type failed: the answer is then the
// failure, and no later candidate is tried.
//
// NXDOMAIN for A holds for the name (RFC 8020), whatever the answers for other types say.
// The reverse is not true: some servers return NXDOMAIN for every type that they do not
// know (RFC 4074 section 4.2).
func (all lookups) combine() finding {
	for i := range all {
		l := &all[i]
		if l.qtype == dns.TypeA && l.nxdomain() {
			return finding{outcome: nxdomain, answer: l.answer, ttl: l.denialTTL()}
		}
		if l.wait != nil {
			l.result = result{answer: failure(fromServer, dns.ExtendedErrorCodeNoReachableAuthority, "timeout while expanding the search list")}
		}
	}
	f := finding{outcome: nxdomain, answer: all[0].answer, ttl: noLimit}
	for i := range all {
		l := &all[i]
		switch {
		case l.owns():
			return finding{outcome: found, answer: all[0].answer}
		case l.failed():
			f.outcome, f.answer = unresolved, l.answer
		case f.outcome == nxdomain && (l.rcode == dns.RcodeSuccess || len(l.answer.answer) > 0):
			f.outcome = nodata // a CNAME whose target does not exist proves that the name exists
		}
		f.ttl = min(f.ttl, l.denialTTL())
	}
	return f
}

// nxdomain reports whether the answer says that the name itself does not exist.
func (l *lookup) nxdomain() bool {
	return l.wait == nil && l.rcode == dns.RcodeNameError && len(l.answer.answer) == 0
}

// owns reports whether the name has records of the type, perhaps through an alias. An alias
// alone does not count.
func (l *lookup) owns() bool {
	return l.wait == nil && l.qtype != dns.TypeCNAME && l.rcode == dns.RcodeSuccess &&
		slices.ContainsFunc(l.answer.answer, func(rr dns.RR) bool { return rr.Header().Rrtype == l.qtype })
}
