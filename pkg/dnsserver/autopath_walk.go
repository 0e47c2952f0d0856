// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// maxAsking is how many questions of walks others are asked at once. One more counts
// as failed: whoever sends long search lists leaves room for plain questions.
const maxAsking = 2048

// walk looks for the first candidate that has what q asks for.
func (s *Server) walk(ctx context.Context, q *query, by string, candidates []fqdn.Name, at *zone.Snapshot) autopath.Result[answer] {
	w := walker{s: s, q: q, at: at, now: time.Now()}
	r := autopath.Walk(ctx, candidates, func(name fqdn.Name) (finding, func(context.Context) finding) {
		f, later := w.look(ctx, name)
		if later != nil && q.atOnce != nil {
			return finding{Outcome: autopath.Failed, InCluster: true, Answer: answer{pending: true}}, nil // which ends it
		}
		return f, later
	})
	if r.Answer.pending {
		return r // there will be another walk
	}
	s.metrics.autopath.expansions.WithLabelValues(by, r.Outcome.String()).Inc()
	s.metrics.autopath.candidates.Observe(float64(r.Lookups))
	s.metrics.autopath.asked.Observe(float64(w.asked.Load()))
	return r
}

// walked is the answer to q that a walk gives: the way to the name found, and what
// that owns. It carries no AD, for nobody has signed the way.
func (s *Server) walked(q *query, r autopath.Result[answer]) answer {
	a := r.Answer
	if a.pending {
		return a
	}
	a.authoritative, a.authentic = false, false
	owner := q.question().Name
	switch {
	case r.Outcome == autopath.Failed || failed(a):
		return answer{source: fromWalk, rcode: dns.RcodeServerFailure, extended: a.extended}
	case r.Outcome == autopath.NXDomain:
		a.rcode, a.answer, a.additional = dns.RcodeNameError, nil, nil
	case r.Outcome == autopath.NoData:
		a.rcode, a.answer, a.additional = dns.RcodeSuccess, nil, nil
	case r.Name == q.name:
		a.rcode, a.answer = dns.RcodeSuccess, spelled(a.answer, owner)
	default:
		a.rcode = dns.RcodeSuccess // it exists, also if some server denies it for this type
		way := &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: r.Name.String()}
		if q.question().Qtype == dns.TypeCNAME {
			a = answer{answer: []dns.RR{way}}
		} else {
			a.answer = append([]dns.RR{way}, a.answer...)
		}
	}
	a.source = fromWalk
	a.answer, a.authority, a.additional = limited(a.answer, r.TTL), limited(a.authority, r.TTL), limited(a.additional, r.TTL)
	return a
}

// limited returns records with no TTL above the limit. They may be shared.
func limited(records []dns.RR, ttl uint32) []dns.RR {
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

type finding = autopath.CandidateResult[answer]

// walker looks up the candidates of one walk.
type walker struct {
	s     *Server
	q     *query
	at    *zone.Snapshot
	now   time.Time
	asked atomic.Int64 // questions that were not answered at once
}

// look finds out what a candidate is, or says how. The questions that it asks of
// others outlive the walk, as long as ctx: the next one finds their answers in the
// cache.
func (w *walker) look(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	verdict, _, node := w.at.Lookup(name)
	switch {
	case verdict == zone.NotInZone:
		f, later := w.lookElsewhere(ctx, name)
		_, f.InCluster = name.Within(w.s.cfg.Domain) // on a node, all that is of the cluster is elsewhere
		return f, later
	case verdict == zone.Exists && node.Alias != "":
		return finding{InCluster: true}, w.follow(ctx, name)
	}
	f := finding{InCluster: true, Outcome: autopath.NXDomain, NegativeTTL: w.s.denialTTL(w.at)}
	if verdict == zone.NXDomain {
		return f, nil
	}
	f.Answer, _ = w.s.clusterAt(ctx, w.q.about(name, w.q.question().Qtype), w.at)
	switch {
	case verdict == zone.Unknown:
		f.Outcome = autopath.Failed
	case len(node.V4)+len(node.V6)+len(f.Answer.answer) > 0:
		f.Outcome = autopath.Found
	default:
		f.Outcome = autopath.NoData
	}
	return f, nil
}

// follow is look for an external name: it is what its target is.
func (w *walker) follow(ctx context.Context, name fqdn.Name) func(context.Context) finding {
	var all inquiry
	for _, t := range decisive(w.q.question().Qtype) {
		q := w.q.about(name, t)
		all = append(all, part{qtype: t, ask: func(ctx context.Context) answer {
			a, _ := w.s.clusterAt(ctx, q, w.at)
			return a
		}})
	}
	return func(wait context.Context) finding {
		f := w.inquire(ctx, wait, all)
		f.NegativeTTL = min(f.NegativeTTL, w.s.denialTTL(w.at))
		return f
	}
}

// lookElsewhere is look for the names of others. The most frequent case by far is a name
// that is known to be absent, so that comes first.
func (w *walker) lookElsewhere(ctx context.Context, name fqdn.Name) (finding, func(context.Context) finding) {
	if ttl, ok := w.s.cfg.Cache.NXDomainTTL(w.address(name), w.now); ok {
		w.q.count(w.s.metrics.lookups.WithLabelValues(cache.Fresh.String()))
		return finding{Outcome: autopath.NXDomain, NegativeTTL: ttl}, nil
	}
	var all inquiry
	for _, t := range decisive(w.q.question().Qtype) {
		a, ask := w.s.atHand(ctx, w.q.about(name, t))
		all = append(all, part{qtype: t, answer: a, ask: ask})
		if all.decided() {
			break
		}
	}
	if all.decided() || all.open() == 0 {
		return all.finding(), nil
	}
	return finding{}, func(wait context.Context) finding { return w.inquire(ctx, wait, all) }
}

// address is the question for a name's IPv4 addresses.
func (w *walker) address(name fqdn.Name) cache.Question {
	return cache.Question{Name: []byte(name), Type: dns.TypeA, Class: dns.ClassINET, CD: w.q.msg.CheckingDisabled, DO: w.q.opt != nil && w.q.opt.Do()}
}

// inquire asks all open questions at once. It waits no longer than it must.
func (w *walker) inquire(ctx, wait context.Context, all inquiry) finding {
	type reply struct {
		to     int
		answer answer
	}
	replies := make(chan reply, len(all)) // what comes too late waits for nobody
	open := all.open()
	w.asked.Add(int64(open))
	for i, p := range all {
		switch {
		case p.ask == nil:
		case w.s.asking.Add(1) > maxAsking:
			w.s.asking.Add(-1)
			replies <- reply{i, failure(fromHere, dns.ExtendedErrorCodeOther, "too many search lists are being walked")}
		default:
			w.s.background(ctx, func(ctx context.Context) {
				defer w.s.asking.Add(-1)
				replies <- reply{i, p.ask(ctx)}
			})
		}
	}
	for ; open > 0; open-- {
		select {
		case r := <-replies:
			all[r.to].answer, all[r.to].ask = r.answer, nil
			if all.decided() {
				return all.finding()
			}
		case <-wait.Done():
			return all.finding()
		}
	}
	return all.finding()
}

// decisive are the types by which a candidate is judged: the one asked for, and the
// addresses, so that all questions about a name with addresses lead to the same one.
func decisive(qtype uint16) []uint16 {
	switch qtype {
	case dns.TypeA:
		return []uint16{dns.TypeA, dns.TypeAAAA}
	case dns.TypeAAAA:
		return []uint16{dns.TypeAAAA, dns.TypeA}
	}
	return []uint16{qtype, dns.TypeA, dns.TypeAAAA}
}

// inquiry is the questions about one candidate, the client's first.
type inquiry []part

type part struct {
	qtype  uint16
	answer answer
	ask    func(context.Context) answer // nil: answered
}

// open is how many questions are not answered.
func (all inquiry) open() (n int) {
	for i := range all {
		if all[i].ask != nil {
			n++
		}
	}
	return n
}

// decided tells whether more answers would change nothing.
func (all inquiry) decided() bool {
	for i := range all {
		if p := &all[i]; p.qtype == dns.TypeA && p.ask == nil {
			return p.absent() || all[0].owned()
		}
	}
	return false
}

// finding is what the answers say together. A question that is still open has failed.
// The answer to the client's may be a failure although the name is found: by another
// type, and then no later name may take its place for this one.
//
// NXDOMAIN for A is the name's (RFC 8020), whatever is said of it for other types. The
// other way round it is not: some servers say so of every type that they do not know
// (RFC 4074 section 4.2).
func (all inquiry) finding() finding {
	for i := range all {
		if p := &all[i]; p.qtype == dns.TypeA && p.absent() {
			return finding{Outcome: autopath.NXDomain, Answer: p.answer, NegativeTTL: denied(p.answer)}
		}
		if all[i].ask != nil {
			all[i].answer = failure(fromHere, dns.ExtendedErrorCodeNoReachableAuthority, "the search list took too long")
		}
	}
	f := finding{Outcome: autopath.NXDomain, Answer: all[0].answer, NegativeTTL: autopath.NoLimit}
	for i := range all {
		p := &all[i]
		switch {
		case p.owned():
			return finding{Outcome: autopath.Found, Answer: all[0].answer}
		case failed(p.answer):
			f.Outcome, f.Answer = autopath.Failed, p.answer
		case f.Outcome == autopath.NXDomain && (p.answer.rcode == dns.RcodeSuccess || len(p.answer.answer) > 0):
			f.Outcome = autopath.NoData // an alias that leads nowhere is a name too, others may be below it
		}
		f.NegativeTTL = min(f.NegativeTTL, denied(p.answer))
	}
	return f
}

// absent tells whether the reply is that the name itself does not exist.
func (p *part) absent() bool {
	return p.ask == nil && p.answer.rcode == dns.RcodeNameError && len(p.answer.answer) == 0
}

// owned tells whether the name has records of the type, perhaps by way of an alias. An
// alias alone is nothing to be found.
func (p *part) owned() bool {
	return p.ask == nil && p.qtype != dns.TypeCNAME && p.answer.rcode == dns.RcodeSuccess &&
		slices.ContainsFunc(p.answer.answer, func(rr dns.RR) bool { return rr.Header().Rrtype == p.qtype })
}

// failed tells whether nobody could answer.
func failed(a answer) bool { return a.rcode != dns.RcodeSuccess && a.rcode != dns.RcodeNameError }

// denied is how long others may rely on a negative answer, in seconds (RFC 2308
// section 5); 0 if it does not say.
func denied(a answer) uint32 {
	for _, rr := range a.authority {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(soa.Hdr.Ttl, soa.Minttl)
		}
	}
	return 0
}
