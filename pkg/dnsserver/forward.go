// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Exchange asks other servers. The reply's question is that of the query; the
// error means that nobody answered. It is safe for concurrent use, changes neither
// and leaves both to the caller.
type Exchange func(ctx context.Context, query *dns.Msg) (*dns.Msg, error)

// Stub is a domain that has servers of its own.
type Stub struct {
	Zone     fqdn.Name
	Exchange Exchange
}

// Forwarding is who is asked for names that are not the cluster's. The zero value:
// nobody, they are refused.
type Forwarding struct {
	Upstream Exchange // nil: names outside of Stubs are refused
	Stubs    []Stub

	// Expander is the cluster DNS for a server on a node: it is sent the search list
	// with names below the autopath suffix, and goes along that for us. nil: we do it.
	Expander Exchange

	// HostSuffixes are the search domains of the node, which come last in these lists,
	// where Autopath has its own for a server without Expander. Those after the first
	// MaxHostSuffixes do not count.
	HostSuffixes []fqdn.Name

	suffixes []byte // those one after the other: what a list has beside the name that it goes with
}

// Use puts f in the place of the present Forwarding, and forgets what was learned from
// that: other servers may see another network. It is to be called again when servers
// behind the same Exchange change. Any goroutine may call it.
func (s *Server) Use(f Forwarding) {
	f.search(f.HostSuffixes)
	s.forwarding.Store(&f)
	s.cfg.Cache.Clear()
}

// Search puts other HostSuffixes into the present Forwarding. What was learned stays: it
// is kept by the suffixes that led to it. Any goroutine may call it.
func (s *Server) Search(suffixes []fqdn.Name) {
	for {
		now := s.forwarding.Load()
		next := *now
		next.search(suffixes)
		if s.forwarding.CompareAndSwap(now, &next) {
			return
		}
	}
}

func (f *Forwarding) search(suffixes []fqdn.Name) {
	f.HostSuffixes = suffixes[:min(len(suffixes), MaxHostSuffixes)]
	f.suffixes = nil
	for _, name := range f.HostSuffixes {
		f.suffixes = append(f.suffixes, name...)
	}
}

// clientPatience is how long a client is kept waiting when a stale answer could be
// given (RFC 8767 section 5).
const clientPatience = 1800 * time.Millisecond

// elsewhere answers a question about a name that is not the cluster's.
func (s *Server) elsewhere(ctx context.Context, q *query) answer {
	a, ask := s.atHand(ctx, q)
	switch {
	case ask == nil:
		return a
	case q.atOnce != nil:
		return answer{pending: true}
	}
	return ask(ctx)
}

// atHand is elsewhere as far as nobody has to be waited for: it returns the answer, or
// how to ask for it.
func (s *Server) atHand(ctx context.Context, q *query) (a answer, ask func(context.Context) answer) {
	if q.question().Qtype == dns.TypeANY { // RFC 8482 section 4.2
		return answer{source: fromHere, answer: []dns.RR{minimal(q.question().Name)}}, nil
	}
	from := s.forwarding.Load()
	if s.exchange(from, q.name) == nil {
		a = failure(fromHere, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured")
		a.rcode = dns.RcodeRefused
		return a, nil
	}
	question, ok := s.cacheQuestion(q, from)
	if !ok {
		return answer{source: fromHere, rcode: dns.RcodeFormatError}, nil
	}
	hit := s.cfg.Cache.Get(question, time.Now())
	q.count(s.metrics.lookups.WithLabelValues(hit.State.String()))
	switch hit.State {
	case cache.Fresh:
		return s.cached(q, &hit, fromCache), nil
	case cache.Expiring:
		s.background(ctx, func(ctx context.Context) { s.ask(ctx, q, question, from) })
		return s.cached(q, &hit, fromCache), nil
	case cache.Failing:
		return s.cached(q, &hit, fromStale), nil
	case cache.Stale:
		stale := hit // hit itself stays off the heap
		return answer{}, func(ctx context.Context) answer { return s.askOrStale(ctx, q, question, from, &stale) }
	}
	return answer{}, func(ctx context.Context) answer { return s.ask(ctx, q, question, from) }
}

// exchange returns how others are asked for a name; nil: not at all. Names of autopath are
// sent to nobody, also when an external name leads to one; an Expander gets what they
// mean.
func (s *Server) exchange(from *Forwarding, name fqdn.Name) Exchange {
	place, _ := s.search.Parse(name)
	switch {
	case place == autopath.NotInZone:
		return from.exchange(name)
	case place == autopath.Search && from.Expander != nil:
		return func(ctx context.Context, m *dns.Msg) (*dns.Msg, error) { return s.expand(ctx, m, name, from) }
	}
	return nil
}

// cacheQuestion returns the question of q, as it is in the cache.
func (s *Server) cacheQuestion(q *query, from *Forwarding) (cache.Question, bool) {
	var paths []byte
	if _, searched := q.name.Within(s.search.Suffix); searched {
		paths = from.suffixes
	}
	return cache.NewQuestion(q.msg, paths)
}

// exchange returns the servers for a name: those of the longest stub domain that
// it is in, or else the upstream servers.
func (f *Forwarding) exchange(name fqdn.Name) Exchange {
	best := Stub{Exchange: f.Upstream}
	for _, stub := range f.Stubs {
		if _, ok := name.Within(stub.Zone); ok && len(stub.Zone) > len(best.Zone) {
			best = stub
		}
	}
	return best.Exchange
}

// ask asks other servers and keeps what they say.
func (s *Server) ask(ctx context.Context, q *query, question cache.Question, from *Forwarding) answer {
	select {
	case s.forwards <- struct{}{}:
		defer func() { <-s.forwards }()
	default: // not kept: nobody was asked
		return failure(fromHere, dns.ExtendedErrorCodeOther, "too many queries are waiting for upstream servers")
	}
	m := new(dns.Msg)
	m.SetQuestion(q.question().Name, q.question().Qtype)
	m.RecursionDesired, m.CheckingDisabled = q.msg.RecursionDesired, q.msg.CheckingDisabled
	m.SetEdns0(maxUDP, question.DO)
	reply, err := s.exchange(from, q.name)(ctx, m)
	current := s.forwarding.Load() == from // else those were asked who are not to be asked any more
	if err != nil {
		if current && ctx.Err() == nil { // not because we are about to end
			s.cfg.Cache.Put(question, new(dns.Msg).SetRcode(m, dns.RcodeServerFailure), time.Now())
		}
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "upstream: "+err.Error())
	}
	if current && m.RecursionDesired { // without, the reply may be a referral
		s.cfg.Cache.Put(question, reply, time.Now())
	}
	if reply.Truncated && q.via == overTCP { // and there is nothing left that the client could try
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "the upstream server's reply is too long for UDP, and TCP to it does not work")
	}
	a := copied(reply, fromUpstream)
	a.answer = spelled(a.answer, q.question().Name)
	return a
}

// spelled returns records with the owner name as the client spelled it (RFC 4343
// section 4.1). The reply may have been asked for by another one, and is shared.
func spelled(records []dns.RR, name string) []dns.RR {
	for i, rr := range records {
		if owner := rr.Header().Name; owner != name && strings.EqualFold(owner, name) {
			records = slices.Clone(records)
			records[i] = dns.Copy(rr)
			records[i].Header().Name = name
		}
	}
	return records
}

// refresh asks for what a packet asks, for the sake of the cache.
func (s *Server) refresh(ctx context.Context, packet []byte) {
	q, _ := parse(packet, overUDP)
	if q == nil {
		return
	}
	from := s.forwarding.Load()
	if question, ok := s.cacheQuestion(q, from); ok && s.exchange(from, q.name) != nil {
		s.ask(ctx, q, question, from)
	}
}

// askOrStale asks, and answers with what it has if that fails or takes too long.
// The question stays asked, so that the next client gets the new answer.
func (s *Server) askOrStale(ctx context.Context, q *query, question cache.Question, from *Forwarding, hit *cache.Hit) answer {
	asked := make(chan answer, 1)
	s.background(ctx, func(ctx context.Context) { asked <- s.ask(ctx, q, question, from) })
	patience := time.NewTimer(clientPatience)
	defer patience.Stop()
	select {
	case a := <-asked:
		if a.rcode != dns.RcodeServerFailure {
			return a
		}
	case <-patience.C:
	case <-ctx.Done():
	}
	return s.cached(q, hit, fromStale)
}

// cached is the answer that a hit holds.
func (s *Server) cached(q *query, hit *cache.Hit, from source) answer {
	m := hit.Msg(cache.ReplyOptions{RD: q.msg.RecursionDesired, AD: true})
	if m == nil {
		return failure(fromCache, dns.ExtendedErrorCodeOther, "a reply in the cache cannot be read")
	}
	a := copied(m, from)
	switch {
	case from == fromStale && a.rcode == dns.RcodeNameError:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleNXDOMAINAnswer}
	case from == fromStale:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}
	}
	return a
}

// copied takes from a reply what concerns the client: nothing of the transport.
func copied(m *dns.Msg, from source) answer {
	a := answer{source: from, rcode: m.Rcode, truncated: m.Truncated, authentic: m.AuthenticatedData, answer: m.Answer, authority: m.Ns}
	for _, r := range m.Extra {
		if t := r.Header().Rrtype; t != dns.TypeOPT && t != dns.TypeTSIG && t != dns.TypeSIG {
			a.additional = append(a.additional, r)
		}
	}
	return a
}
