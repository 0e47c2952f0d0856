// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// WalkTimeout is how long the expansion of a search list waits for other servers: glibc and
// musl give a query five seconds.
const WalkTimeout = 4 * time.Second

// outcome is what is known about a candidate, or about a search list.
type outcome uint8

// found means that the name owns an address of either family, so that queries for both
// families are answered with the same name, or a record of the type asked for.
const (
	nxdomain outcome = iota
	nodata
	found
	unresolved // no server could answer
)

// String returns the outcome as a label of metrics.
func (o outcome) String() string { return [...]string{"absent", "nodata", "found", "failed"}[o] }

// noLimit is a TTL that bounds nothing.
const noLimit = math.MaxUint32

// finding is what was found out about a candidate, or about a search list.
type finding struct {
	outcome outcome
	answer  answer // with records

	// ttl bounds, in seconds, how long nxdomain and nodata hold. Of a search list it is
	// how long the whole answer may be cached: until a candidate that was passed over may
	// exist. It is 0 if one of them was unresolved.
	ttl uint32

	// cluster: the cluster DNS server is authoritative for the name. If it is unresolved
	// now it may exist, and no later candidate must answer instead.
	cluster bool

	name fqdn.Name // the candidate that was found
}

// final reports whether no later candidate is tried.
func (f *finding) final() bool {
	return f.outcome == found || f.outcome == unresolved && f.cluster
}

// walk tries the candidates of a search list:
//
//   - the first one that is found is the result;
//   - NODATA is passed over and remembered: glibc does so, and a namespace must not hide a
//     host of the same name;
//   - an unresolved name of the cluster is the result;
//   - any other unresolved name is passed over. If a later candidate is found, that is the
//     result, which is not cached. Otherwise the walk has failed.
//
// No server is asked for a candidate behind one that is known to be final. Names of the
// cluster are looked up one after the other, all others at once. After WalkTimeout, what is
// not answered is unresolved.
type walk struct {
	candidates []fqdn.Name
	lookup     lookupFunc
	steps      []step
}

// lookupFunc finds out about a candidate, without blocking. If wait is not nil, only cluster
// of the finding is set, and wait returns the finding, when its context ends at the latest.
type lookupFunc func(name fqdn.Name) (f finding, wait func(context.Context) finding)

// step is a candidate that was tried.
type step struct {
	name    fqdn.Name
	finding finding
	wait    func(context.Context) finding // nil: the finding is complete
}

// advance tries candidates without blocking, until one is final or a name of the cluster has
// to be waited for. It reports whether the walk is complete.
func (w *walk) advance() bool {
	for len(w.steps) < len(w.candidates) {
		name := w.candidates[len(w.steps)]
		f, wait := w.lookup(name)
		w.steps = append(w.steps, step{name: name, finding: f, wait: wait})
		if wait == nil && f.final() || wait != nil && f.cluster {
			break
		}
	}
	return !slices.ContainsFunc(w.steps, func(s step) bool { return s.wait != nil })
}

// await completes the walk.
func (w *walk) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, WalkTimeout)
	defer cancel()
	for last := w.last(); last.wait != nil && last.finding.cluster; last = w.last() {
		last.finding, last.wait = last.wait(ctx), nil
		last.finding.cluster = true
		if last.finding.final() {
			break
		}
		w.advance()
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel() // what is behind a final candidate
	done := make([]chan struct{}, len(w.steps))
	for i := range w.steps {
		if s := &w.steps[i]; s.wait != nil {
			done[i] = make(chan struct{})
			waiting.Go(func() {
				defer close(done[i])
				s.finding = s.wait(ctx)
			})
		}
	}
	for i := range w.steps {
		if done[i] != nil {
			<-done[i]
		}
		if w.steps[i].finding.final() {
			return
		}
	}
}

func (w *walk) last() *step { return &w.steps[len(w.steps)-1] }

// conclude returns the result of a complete walk.
func (w *walk) conclude() finding {
	r := finding{ttl: noLimit}
	var failure *finding
	for i := range w.steps {
		f := &w.steps[i].finding
		switch {
		case f.final():
			r.outcome, r.answer = f.outcome, f.answer
			if f.outcome == found {
				r.name = w.steps[i].name
			}
			return r
		case f.outcome == unresolved:
			r.ttl = 0
			if failure == nil {
				failure = f
			}
		default:
			r.ttl = min(r.ttl, f.ttl)
			r.outcome = max(r.outcome, f.outcome)
		}
		r.answer = f.answer
	}
	if failure != nil {
		r.outcome, r.answer = unresolved, failure.answer
	}
	return r
}

// walk answers q with what conclude makes of the result of a walk. by is what gave the search
// list, as a label.
func (s *Server) walk(ctx context.Context, q *query, by string, candidates []fqdn.Name, at *zone.Snapshot, conclude func(finding) answer) result {
	c := &candidateLookup{s: s, q: q, at: at}
	w := &walk{
		candidates: candidates, steps: make([]step, 0, len(candidates)),
		lookup: func(name fqdn.Name) (finding, func(context.Context) finding) { return c.lookup(ctx, name) },
	}
	finish := func() answer {
		f := w.conclude()
		s.metrics.autopath.expansions.WithLabelValues(by, f.outcome.String()).Inc()
		s.metrics.autopath.candidates.Observe(float64(len(w.steps)))
		s.metrics.autopath.forwarded.Observe(float64(c.forwarded.Load()))
		return conclude(f)
	}
	if w.advance() {
		return result{answer: finish()}
	}
	return result{wait: func(ctx context.Context) answer {
		w.await(ctx)
		return finish()
	}}
}

// walkAnswer returns the answer to q: the alias to the name found, and what that owns. It
// has no AD: the alias is not signed.
func (s *Server) walkAnswer(q *query, f finding) answer {
	a := f.answer
	a.authoritative, a.authentic = false, false
	owner := q.owner()
	switch {
	case f.outcome == unresolved || a.failed():
		return answer{source: fromWalk, rcode: dns.RcodeServerFailure, extended: a.extended}
	case f.outcome == nxdomain:
		a.rcode, a.answer, a.additional = dns.RcodeNameError, nil, nil
	case f.outcome == nodata:
		a.rcode, a.answer, a.additional = dns.RcodeSuccess, nil, nil
	case f.name == q.name:
		a.rcode, a.answer = dns.RcodeSuccess, withOwnerCase(a.answer, owner)
	default:
		a.rcode = dns.RcodeSuccess // the name exists, also if a server denies it for this type
		alias := &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: f.name.String()}
		if q.qtype == dns.TypeCNAME {
			a = answer{answer: []dns.RR{alias}}
		} else {
			a.answer = append([]dns.RR{alias}, a.answer...)
		}
	}
	a.source = fromWalk
	a.answer, a.authority, a.additional = capTTL(a.answer, f.ttl), capTTL(a.authority, f.ttl), capTTL(a.additional, f.ttl)
	return a
}

// capTTL returns the records with no TTL above the limit. The records may be shared.
func capTTL(records []dns.RR, ttl uint32) []dns.RR {
	if !slices.ContainsFunc(records, func(rr dns.RR) bool { return rr.Header().Ttl > ttl }) {
		return records
	}
	records = slices.Clone(records)
	for i, rr := range records {
		if rr.Header().Ttl > ttl {
			records[i] = dns.Copy(rr)
			records[i].Header().Ttl = ttl
		}
	}
	return records
}
