// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

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

// clientPatience is how long a client is kept waiting when a stale answer could be
// given (RFC 8767 section 5).
const clientPatience = 1800 * time.Millisecond

// elsewhere answers a question about a name that is not the cluster's.
func (s *Server) elsewhere(ctx context.Context, q *query) answer {
	if q.question().Qtype == dns.TypeANY { // RFC 8482 section 4.2
		return answer{source: fromHere, answer: []dns.RR{&dns.HINFO{Hdr: header(q.question().Name, dns.TypeHINFO, minimalTTL), Cpu: "RFC8482"}}}
	}
	exchange := s.exchange(q.name)
	if exchange == nil {
		a := failure(fromHere, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured")
		a.rcode = dns.RcodeRefused
		return a
	}
	question, ok := cache.QuestionOf(q.msg, nil)
	if !ok {
		return answer{source: fromHere, rcode: dns.RcodeFormatError}
	}
	hit := s.cfg.Cache.Get(question, time.Now())
	switch hit.State {
	case cache.Fresh:
		return s.cached(q, &hit, fromCache)
	case cache.Expiring:
		s.background(ctx, func(ctx context.Context) { s.ask(ctx, q, question, exchange) })
		return s.cached(q, &hit, fromCache)
	case cache.Failing:
		return s.cached(q, &hit, fromStale)
	case cache.Stale:
		return s.askOrStale(ctx, q, question, exchange, &hit)
	}
	return s.ask(ctx, q, question, exchange)
}

// exchange returns the servers for a name: those of the longest stub domain that
// it is in, or else the upstream servers.
func (s *Server) exchange(name fqdn.Name) Exchange {
	best := Stub{Exchange: s.cfg.Upstream}
	for _, stub := range s.cfg.Stubs {
		if _, ok := name.Within(stub.Zone); ok && len(stub.Zone) > len(best.Zone) {
			best = stub
		}
	}
	return best.Exchange
}

// ask asks other servers and keeps what they say.
func (s *Server) ask(ctx context.Context, q *query, question cache.Question, exchange Exchange) answer {
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
	reply, err := exchange(ctx, m)
	if err != nil {
		if ctx.Err() == nil { // not because we are about to end
			s.cfg.Cache.Put(question, new(dns.Msg).SetRcode(m, dns.RcodeServerFailure), time.Now())
		}
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "upstream: "+err.Error())
	}
	if m.RecursionDesired { // without, the reply may be a referral
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

// askOrStale asks, and answers with what it has if that fails or takes too long.
// The question stays asked, so that the next client gets the new answer.
func (s *Server) askOrStale(ctx context.Context, q *query, question cache.Question, exchange Exchange, hit *cache.Hit) answer {
	asked := make(chan answer, 1)
	s.background(ctx, func(ctx context.Context) { asked <- s.ask(ctx, q, question, exchange) })
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
	m := hit.Msg(cache.Asker{RD: q.msg.RecursionDesired, AD: true})
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
