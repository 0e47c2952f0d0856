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

// The order matters: if no candidate is found or unresolved, the outcome of a walk is the greatest
// one of its candidates. So one NODATA makes the walk NODATA.
//
// A candidate is found if it owns a record of the query type, or an address of either family:
// queries for both families then lead to the same name.
const (
	nxdomain outcome = iota
	nodata
	found
	unresolved // no server could answer
)

// String returns the outcome as a label of metrics. The labels are older than the constants, and
// stay for existing alerts.
func (o outcome) String() string { return [...]string{"absent", "nodata", "found", "failed"}[o] }

// noLimit is a TTL that bounds nothing.
const noLimit = math.MaxUint32

// lookupResult is the result of looking up a candidate, or of a walk.
type lookupResult struct {
	outcome outcome
	answer  answer // with records

	// ttl is the negative TTL of a candidate that is nxdomain or nodata, in seconds. For a
	// walk it is the smallest one of the candidates that were passed over, and limits every
	// TTL of the answer. It is 0 if one of these candidates was unresolved.
	ttl uint32

	// cluster is set if the cluster DNS server is authoritative for the name. If such a name
	// is unresolved, no later candidate is tried, because the name may exist.
	cluster bool

	name fqdn.Name // the candidate that was found
}

// final reports whether no later candidate is tried.
func (lr *lookupResult) final() bool {
	return lr.outcome == found || lr.outcome == unresolved && lr.cluster
}

// waveSize is the largest number of candidates that a wave sends queries for. Candidates in the
// cluster zone do not count. Most names outside the cluster are found in one of the first two
// search domains of the host, or as the bare name.
const waveSize = 3

// waveTime is how long a walk waits for a wave before it starts the next one. So WalkTimeout
// suffices for several waves, even if the servers of one domain do not answer.
const waveTime = time.Second

// walk is one expansion: it tries the candidates of a search list. The last candidate is the bare
// name, without a search domain. The rules are:
//
//   - the first one that is found is the result;
//   - NODATA is passed over, as in glibc: the name of a namespace is an empty non-terminal below
//     svc, and must not hide a host of the same name. If no candidate is found or unresolved, the
//     result is NODATA;
//   - an unresolved name of the cluster is the result;
//   - any other unresolved name is passed over. If a later candidate is found, that is the
//     result, which is not cached. Otherwise the walk has failed;
//   - a refusal is the result if the client can then try the candidates itself.
//
// Candidates that other servers answer are tried in waves of waveSize, in order. The next wave
// starts when the previous one is answered, or after waveTime. No query is sent for a candidate
// after one that is known to be final. A name of the cluster zone must have a result before the
// next candidate is tried. After WalkTimeout a candidate without an answer is unresolved.
type walk struct {
	candidates   []fqdn.Name
	lookup       lookupFunc
	recoverPanic func() // deferred in each goroutine
	steps        []step

	// clientCanExpand is set if the client tries the candidates itself after a refusal. The first
	// refusal is then the result, so that the client does not wait for other candidates.
	clientCanExpand bool
}

// lookupFunc looks up a candidate without blocking. If wait is nil, lr is complete. Otherwise only lr.cluster is set,
// and wait returns the complete result. It returns at the latest when its context ends.
type lookupFunc func(name fqdn.Name) (lr lookupResult, wait func(context.Context) lookupResult)

// step is a candidate that was tried.
type step struct {
	name   fqdn.Name
	result lookupResult
	wait   func(context.Context) lookupResult // nil: the result is complete
}

// advance tries candidates without blocking, until one is final, a name of the cluster has to be
// waited for, or a wave is complete. It reports whether the walk is complete.
func (w *walk) advance() bool {
	for pending := 0; pending < waveSize && len(w.steps) < len(w.candidates); {
		name := w.candidates[len(w.steps)]
		lr, wait := w.lookup(name)
		w.steps = append(w.steps, step{name: name, result: lr, wait: wait})
		if wait == nil && lr.final() || wait != nil && lr.cluster {
			break
		}
		if wait != nil {
			pending++
		}
	}
	return w.isComplete()
}

// isComplete reports whether the result of the walk is known: all candidates up to the first final
// one, or all candidates if none is final, have a result.
func (w *walk) isComplete() bool {
	if w.firstRefusal() != nil {
		return true
	}
	for i := range w.steps {
		switch s := &w.steps[i]; {
		case s.wait != nil:
			return false
		case s.result.final():
			return true
		}
	}
	return len(w.steps) == len(w.candidates)
}

// firstRefusal returns the result of the refused candidate that ends the walk, or nil.
func (w *walk) firstRefusal() *lookupResult {
	if !w.clientCanExpand {
		return nil
	}
	for i := range w.steps {
		if lr := &w.steps[i].result; lr.answer.refused.allowsFallback() {
			return lr
		}
	}
	return nil
}

// await waits for the results of the candidates, and starts further waves until the walk is complete.
func (w *walk) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, WalkTimeout)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel() // before waiting.Wait: ends the lookups after a final candidate
	answers := make(chan stepAnswer, len(w.candidates))
	first := 0 // the first step of the current wave
	unanswered := w.startWave(ctx, first, &waiting, answers)
	timer := time.NewTimer(waveTime)
	defer timer.Stop()
	late := false // the current wave has taken waveTime
	for !w.isComplete() {
		// A name of the cluster must have a result before the next candidate is tried.
		last := &w.steps[len(w.steps)-1]
		waveOver := unanswered == 0 || late && (last.wait == nil || !last.result.cluster)
		isFinal := func(s step) bool { return s.wait == nil && s.result.final() }
		if waveOver && len(w.steps) < len(w.candidates) && !slices.ContainsFunc(w.steps, isFinal) {
			first, late = len(w.steps), false
			w.advance()
			unanswered = w.startWave(ctx, first, &waiting, answers)
			timer.Reset(waveTime)
			continue
		}
		select {
		case a := <-answers:
			if a.step >= first { // not one of an earlier wave
				unanswered--
			}
			s := &w.steps[a.step]
			a.result.cluster = a.result.cluster || s.result.cluster
			s.result, s.wait = a.result, nil
		case <-timer.C:
			late = true
		}
	}
}

// stepAnswer is the result of looking up the candidate of a step.
type stepAnswer struct {
	step   int
	result lookupResult
}

// startWave sends the queries for the candidates of the steps from number first on, and returns how
// many of these candidates wait for other servers. answers must have a capacity for all of them.
func (w *walk) startWave(ctx context.Context, first int, waiting *sync.WaitGroup, answers chan<- stepAnswer) (n int) {
	for i := first; i < len(w.steps); i++ {
		wait := w.steps[i].wait
		if wait == nil {
			continue
		}
		n++
		waiting.Go(func() {
			lr := lookupResult{outcome: unresolved} // if wait panics
			defer func() { answers <- stepAnswer{i, lr} }()
			defer w.recoverPanic()
			lr = wait(ctx)
		})
	}
	return n
}

// conclude returns the result of a complete walk.
func (w *walk) conclude() lookupResult {
	if lr := w.firstRefusal(); lr != nil {
		return *lr
	}
	r := lookupResult{ttl: noLimit}
	var failed *lookupResult // an unresolved candidate
	for i := range w.steps {
		lr := &w.steps[i].result
		switch {
		case lr.final():
			r.outcome, r.answer = lr.outcome, lr.answer
			if lr.outcome == found {
				r.name = w.steps[i].name
			}
			return r
		case lr.outcome == unresolved:
			r.ttl = 0
			if failed == nil || lr.answer.refused != notRefused { // a refusal wins: its answer is not cached
				failed = lr
			}
		default:
			r.ttl = min(r.ttl, lr.ttl)
			r.outcome = max(r.outcome, lr.outcome)
		}
		r.answer = lr.answer
	}
	if failed != nil {
		r.outcome, r.answer = unresolved, failed.answer
	}
	return r
}

// walkCandidates tries the candidates and returns the answer that toAnswer makes from the result.
// by is a label: byName or byOption.
func (s *Server) walkCandidates(ctx context.Context, q *query, by string, candidates []fqdn.Name,
	snapshot *zone.Snapshot, toAnswer func(lookupResult) answer) result {
	c := &candidateLookup{s: s, q: q, snapshot: snapshot}
	w := &walk{
		candidates: candidates, steps: make([]step, 0, len(candidates)), recoverPanic: s.recoverPanic,
		clientCanExpand: by == byOption,
		lookup:          func(name fqdn.Name) (lookupResult, func(context.Context) lookupResult) { return c.lookup(ctx, name) },
	}
	finish := func() answer {
		lr := w.conclude()
		s.metrics.autopath.expansions.WithLabelValues(by, lr.outcome.String()).Inc()
		s.metrics.autopath.candidates.Observe(float64(len(w.steps)))
		s.metrics.autopath.forwarded.Observe(float64(c.forwarded.Load()))
		return toAnswer(lr)
	}
	if w.advance() {
		return result{answer: finish()}
	}
	return result{kind: kindSearch, wait: func(ctx context.Context) answer {
		w.await(ctx)
		return finish()
	}}
}

// walkAnswer returns the answer to q: a CNAME record to the name found, and the records of
// that name. AD is not set: the CNAME record is not signed.
func (s *Server) walkAnswer(q *query, lr lookupResult) answer {
	a := lr.answer
	a.authoritative, a.authentic = false, false
	owner := q.presentationName()
	switch {
	case lr.outcome == unresolved || a.failed():
		return answer{source: fromWalk, rcode: dns.RcodeServerFailure, refused: a.refused,
			extended: a.extended, cachedFailure: a.cachedFailure}
	case lr.outcome == nxdomain:
		a.rcode, a.answers, a.additional = dns.RcodeNameError, nil, nil
	case lr.outcome == nodata:
		a.rcode, a.answers, a.additional = dns.RcodeSuccess, nil, nil
	case lr.name == q.name:
		a.rcode, a.answers = dns.RcodeSuccess, withOwnerCase(a.answers, owner)
	default:
		a.rcode = dns.RcodeSuccess // the name exists, even if a server returned NXDOMAIN for this type
		alias := &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: lr.name.String()}
		if q.qtype == dns.TypeCNAME {
			a = answer{answers: []dns.RR{alias}}
		} else {
			a.answers = append([]dns.RR{alias}, a.answers...)
		}
	}
	a.source = fromWalk
	a.answers, a.authority, a.additional = capTTL(a.answers, lr.ttl), capTTL(a.authority, lr.ttl), capTTL(a.additional, lr.ttl)
	return a
}
