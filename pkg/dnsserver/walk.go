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

// outcome is the outcome of looking up a candidate, or of a walk.
type outcome uint8

// nodata is greater than nxdomain, because a walk returns the greater of the two. found means
// that the name owns a record of the query type or an address of either family: queries for
// both families lead to the same name.
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

// finding is the result of looking up a candidate, or of a walk.
type finding struct {
	outcome outcome
	answer  answer // with records

	// ttl is the negative TTL of a candidate that is nxdomain or nodata, in seconds. For a
	// walk it is the smallest of the candidates that were passed over, which limits every
	// TTL of the answer. It is 0 if one of them was unresolved.
	ttl uint32

	// cluster: the cluster DNS server is authoritative for the name. If the name is
	// unresolved, it may exist, and no later candidate is tried.
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
// No query is sent for a candidate after one that is known to be final. Names of the
// cluster are looked up one after the other, all others at once. After WalkTimeout a
// candidate without an answer is unresolved.
type walk struct {
	candidates   []fqdn.Name
	lookup       lookupFunc
	recoverPanic func() // deferred in each goroutine
	steps        []step
}

// lookupFunc looks up a candidate without blocking. If wait is nil, f is complete. Otherwise
// only f.cluster is set, and wait returns the complete finding. It returns at the latest when
// its context ends.
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
	defer cancel() // before waiting.Wait: ends the lookups after a final candidate
	done := make([]chan struct{}, len(w.steps))
	for i := range w.steps {
		if s := &w.steps[i]; s.wait != nil {
			done[i] = make(chan struct{})
			waiting.Go(func() {
				defer close(done[i])
				defer w.recoverPanic()
				wait := s.wait
				s.finding = finding{outcome: unresolved} // if wait panics
				s.finding = wait(ctx)
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
	var firstUnresolved *finding
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
			if firstUnresolved == nil {
				firstUnresolved = f
			}
		default:
			r.ttl = min(r.ttl, f.ttl)
			r.outcome = max(r.outcome, f.outcome)
		}
		r.answer = f.answer
	}
	if firstUnresolved != nil {
		r.outcome, r.answer = unresolved, firstUnresolved.answer
	}
	return r
}

// walk walks the candidates and returns the answer that toAnswer makes from the result. by is
// a label: byName or byOption.
func (s *Server) walk(ctx context.Context, q *query, by string, candidates []fqdn.Name, snapshot *zone.Snapshot, toAnswer func(finding) answer) result {
	c := &candidateLookup{s: s, q: q, snapshot: snapshot}
	w := &walk{
		candidates: candidates, steps: make([]step, 0, len(candidates)), recoverPanic: s.recoverPanic,
		lookup: func(name fqdn.Name) (finding, func(context.Context) finding) { return c.lookup(ctx, name) },
	}
	finish := func() answer {
		f := w.conclude()
		s.metrics.autopath.expansions.WithLabelValues(by, f.outcome.String()).Inc()
		s.metrics.autopath.candidates.Observe(float64(len(w.steps)))
		s.metrics.autopath.forwarded.Observe(float64(c.forwarded.Load()))
		return toAnswer(f)
	}
	if w.advance() {
		return result{answer: finish()}
	}
	return result{wait: func(ctx context.Context) answer {
		w.await(ctx)
		return finish()
	}}
}

// walkAnswer returns the answer to q: a CNAME record to the name found, and the records of
// that name. AD is not set: the CNAME record is not signed.
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
		a.rcode = dns.RcodeSuccess // the name exists, even if a server returned NXDOMAIN for this type
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
