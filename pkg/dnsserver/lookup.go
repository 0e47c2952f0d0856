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

// candidateLookup finds out about the candidates of one walk.
type candidateLookup struct {
	s         *Server
	q         *query
	at        *zone.Snapshot
	forwarded atomic.Int64 // questions to other servers
}

// lookup finds out about a candidate, or returns how to wait for it. The questions that are
// sent to other servers outlive the walk, as long as ctx: the next walk finds their answers
// in the cache.
func (c *candidateLookup) lookup(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	verdict, _, node := c.at.Lookup(name)
	switch {
	case verdict == zone.NotInZone:
		f, wait := c.lookupForwarded(ctx, name)
		_, f.cluster = name.Within(c.s.cfg.Domain) // a node cache forwards the cluster's names
		return f, wait
	case verdict == zone.Exists && node.Alias != "":
		return c.lookupAlias(ctx, name)
	}
	f := finding{cluster: true, outcome: nxdomain, ttl: c.s.denialTTL(c.at)}
	if verdict == zone.NXDomain {
		return f, nil
	}
	r, _ := c.s.zoneRecords(ctx, c.q.subquery(name, c.q.qtype), c.at)
	f.answer = r.answer
	switch {
	case verdict == zone.Unknown:
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
	all := c.lookups(name, func(q *query) result {
		r, _ := c.s.zoneRecords(ctx, q, c.at)
		return r
	})
	f, wait := c.findingOf(ctx, all)
	cluster := func(f finding) finding {
		f.cluster, f.ttl = true, min(f.ttl, c.s.denialTTL(c.at))
		return f
	}
	if wait == nil {
		return cluster(f), nil
	}
	return finding{cluster: true}, func(ctx context.Context) finding { return cluster(wait(ctx)) }
}

// lookupForwarded is lookup for the names that other servers answer. Most of them are known
// to be absent, which the first lines find out fast.
func (c *candidateLookup) lookupForwarded(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	key := cache.Question{Name: []byte(name), Type: dns.TypeA, Class: dns.ClassINET, CD: c.q.flags&flagCD != 0, DO: c.q.do}
	if ttl, ok := c.s.cfg.Cache.NXDomainTTL(key, c.q.received); ok {
		c.s.metrics.lookups[cache.Fresh].Inc()
		return finding{outcome: nxdomain, ttl: ttl}, nil
	}
	return c.findingOf(ctx, c.lookups(name, func(q *query) result { return c.s.forward(ctx, q, nil) }))
}

// lookups are the questions about one candidate, that of the client first.
type lookups []lookup

type lookup struct {
	qtype uint16
	result
}

// lookups resolves the questions that decide about a candidate, as far as that is possible
// without waiting: the type asked for, and the addresses, so that all questions about a name
// with addresses lead to the same candidate.
func (c *candidateLookup) lookups(name fqdn.Name, resolve func(*query) result) lookups {
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

// findingOf returns the finding, or how to wait for it.
func (c *candidateLookup) findingOf(ctx context.Context, all lookups) (finding, func(context.Context) finding) {
	if all.conclusive() || all.pending() == 0 {
		return all.finding(), nil
	}
	return finding{}, func(wait context.Context) finding { return c.awaitLookups(ctx, wait, all) }
}

// awaitLookups asks all pending questions at once. It returns as soon as more answers would
// not change the finding.
func (c *candidateLookup) awaitLookups(ctx, wait context.Context, all lookups) finding {
	type reply struct {
		to     int
		answer answer
	}
	replies := make(chan reply, len(all)) // a late reply blocks no goroutine
	pending := all.pending()
	c.forwarded.Add(int64(pending))
	for i, l := range all {
		switch {
		case l.wait == nil:
		case !c.s.limits.expanded.tryAcquire():
			replies <- reply{i, failure(fromServer, dns.ExtendedErrorCodeOther, "too many search lists are being walked")}
		default:
			c.s.background(ctx, func(ctx context.Context) {
				defer c.s.limits.expanded.release()
				replies <- reply{i, l.wait(ctx).withRecords()}
			})
		}
	}
	for ; pending > 0; pending-- {
		select {
		case r := <-replies:
			all[r.to].result = result{answer: r.answer}
			if all.conclusive() {
				return all.finding()
			}
		case <-wait.Done():
			return all.finding()
		}
	}
	return all.finding()
}

// pending returns how many questions are not answered.
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

// finding returns what the answers mean together. A pending question counts as failed. The
// answer to the client's question may be a failure although the name is found, by another
// type; then no later candidate may answer instead.
//
// NXDOMAIN for A holds for the name (RFC 8020), whatever the answers for other types say.
// The reverse is not true: some servers return NXDOMAIN for every type that they do not
// know (RFC 4074 section 4.2).
func (all lookups) finding() finding {
	for i := range all {
		l := &all[i]
		if l.qtype == dns.TypeA && l.nxdomain() {
			return finding{outcome: nxdomain, answer: l.answer, ttl: l.denialTTL()}
		}
		if l.wait != nil {
			l.result = result{answer: failure(fromServer, dns.ExtendedErrorCodeNoReachableAuthority, "the search list took too long")}
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
			f.outcome = nodata // an alias without target is a name too, and others may be below it
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
