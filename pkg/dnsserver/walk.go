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

// waveSize is the largest number of candidates that a wave sends queries for. A name in the
// cluster needs none, and most others are in one of the first two search domains of the host, or
// the name itself.
const waveSize = 3

// waveTime is how long a walk waits for a wave before it starts the next one, so that the servers
// of one domain that do not answer do not use up WalkTimeout.
const waveTime = time.Second

// walk tries the candidates of a search list:
//
//   - the first one that is found is the result;
//   - NODATA is passed over and remembered: glibc does so, and a namespace must not hide a
//     host of the same name;
//   - an unresolved name of the cluster is the result;
//   - any other unresolved name is passed over. If a later candidate is found, that is the
//     result, which is not cached. Otherwise the walk has failed.
//
// Candidates that other servers answer are tried in waves of waveSize, in order. The next wave
// starts when the last one is answered, or after waveTime. No query is sent for a candidate after
// one that is known to be final, nor before a name of the cluster in front of it is known. After
// WalkTimeout a candidate without an answer is unresolved.
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

// advance tries candidates without blocking, until one is final, a name of the cluster has to be
// waited for, or a wave is complete. It reports whether the walk is complete.
func (w *walk) advance() bool {
	for pending := 0; pending < waveSize && len(w.steps) < len(w.candidates); {
		name := w.candidates[len(w.steps)]
		f, wait := w.lookup(name)
		w.steps = append(w.steps, step{name: name, finding: f, wait: wait})
		if wait == nil && f.final() || wait != nil && f.cluster {
			break
		}
		if wait != nil {
			pending++
		}
	}
	return w.complete()
}

// complete reports whether the result is known: a candidate is final or the last one, and all
// before it are known.
func (w *walk) complete() bool {
	for i := range w.steps {
		switch s := &w.steps[i]; {
		case s.wait != nil:
			return false
		case s.finding.final():
			return true
		}
	}
	return len(w.steps) == len(w.candidates)
}

// await completes the walk.
func (w *walk) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, WalkTimeout)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel() // before waiting.Wait: ends the lookups after a final candidate
	answers := make(chan stepAnswer, len(w.candidates))
	first := 0 // step of the wave
	wave := w.startWave(ctx, first, &waiting, answers)
	timer := time.NewTimer(waveTime)
	defer timer.Stop()
	late := false
	for !w.complete() {
		if (wave == 0 || late && !w.waitsForCluster()) && w.mayAdvance() {
			first, late = len(w.steps), false
			w.advance()
			wave = w.startWave(ctx, first, &waiting, answers)
			timer.Reset(waveTime)
			continue
		}
		select {
		case a := <-answers:
			if a.step >= first {
				wave--
			}
			s := &w.steps[a.step]
			a.finding.cluster = a.finding.cluster || s.finding.cluster
			s.finding, s.wait = a.finding, nil
		case <-timer.C:
			late = true
		}
	}
}

// stepAnswer is the finding about the candidate of a step.
type stepAnswer struct {
	step    int
	finding finding
}

// startWave sends the queries for the candidates from the first step on, and returns how many of
// them wait for other servers. answers must have room for all.
func (w *walk) startWave(ctx context.Context, first int, waiting *sync.WaitGroup, answers chan<- stepAnswer) (n int) {
	for i := first; i < len(w.steps); i++ {
		wait := w.steps[i].wait
		if wait == nil {
			continue
		}
		n++
		waiting.Go(func() {
			f := finding{outcome: unresolved} // if wait panics
			defer func() { answers <- stepAnswer{i, f} }()
			defer w.recoverPanic()
			f = wait(ctx)
		})
	}
	return n
}

// mayAdvance reports whether there is another candidate, and it may be the result.
func (w *walk) mayAdvance() bool {
	return len(w.steps) < len(w.candidates) &&
		!slices.ContainsFunc(w.steps, func(s step) bool { return s.wait == nil && s.finding.final() })
}

// waitsForCluster reports whether the last candidate is a name of the cluster without an answer,
// which decides whether the next one is tried.
func (w *walk) waitsForCluster() bool {
	last := &w.steps[len(w.steps)-1]
	return last.wait != nil && last.finding.cluster
}

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
			if firstUnresolved == nil || f.answer.rejection != granted { // a rejection is not cached
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
func (s *Server) walk(ctx context.Context, q *query, by string, candidates []fqdn.Name,
	snapshot *zone.Snapshot, toAnswer func(finding) answer) result {
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
	return result{work: workSearch, wait: func(ctx context.Context) answer {
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
		return answer{source: fromWalk, rcode: dns.RcodeServerFailure, extended: a.extended, rejection: a.rejection}
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
