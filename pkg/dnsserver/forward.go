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

// Exchange sends a query to other servers. The reply has the question of the query; the
// error means that no server answered. It is safe for concurrent use. It must not change
// the query, and the caller must not change the reply.
type Exchange func(ctx context.Context, query *dns.Msg) (*dns.Msg, error)

// Stub is a domain that has servers of its own.
type Stub struct {
	Zone     fqdn.Name
	Exchange Exchange
}

// Forwarding says which servers are asked for names outside the cluster. The zero value:
// none, such names are refused.
type Forwarding struct {
	Upstream Exchange // nil: names outside of Stubs are refused
	Stubs    []Stub

	// Expander is the cluster DNS server of a node cache. Names below the autopath suffix
	// are sent to it with their search list, which it expands. nil: this server expands
	// them itself.
	Expander Exchange

	// HostSuffixes are the search domains of the node, the last part of those search
	// lists. A server without Expander has them in Autopath. Those after the first
	// MaxHostSuffixes are ignored.
	HostSuffixes []fqdn.Name

	searchKey []byte // the HostSuffixes in one: what the answer to an autopath name depends on in addition to the name
}

// SetForwarding replaces the present Forwarding and clears the cache: other servers may
// see another network. Call it again when the servers behind the same Exchange change. It is
// safe for concurrent use.
func (s *Server) SetForwarding(f Forwarding) {
	f.setHostSuffixes(f.HostSuffixes)
	s.forwarding.Store(&f)
	s.cfg.Cache.Clear()
}

// SetHostSuffixes replaces the HostSuffixes of the present Forwarding. The cache keeps its
// replies: their keys contain the suffixes. It is safe for concurrent use.
func (s *Server) SetHostSuffixes(suffixes []fqdn.Name) {
	for {
		now := s.forwarding.Load()
		next := *now
		next.setHostSuffixes(suffixes)
		if s.forwarding.CompareAndSwap(now, &next) {
			return
		}
	}
}

func (f *Forwarding) setHostSuffixes(suffixes []fqdn.Name) {
	f.HostSuffixes = suffixes[:min(len(suffixes), MaxHostSuffixes)]
	f.searchKey = nil
	for _, name := range f.HostSuffixes {
		f.searchKey = append(f.searchKey, name...)
	}
}

// destination is where queries for a name are forwarded to.
type destination struct {
	exchange  Exchange // nil: nowhere
	expand    bool     // exchange is the Expander, which is sent the search list
	searchKey []byte
}

// destination returns where queries for a name are forwarded to. Autopath names go to the
// Expander and nowhere else, also if an external name leads to one.
func (s *Server) destination(from *Forwarding, name fqdn.Name) destination {
	place, _ := s.search.Parse(name)
	switch {
	case place == autopath.NotInZone:
		return destination{exchange: from.exchange(name)}
	case place == autopath.Search && from.Expander != nil:
		return destination{exchange: from.Expander, expand: true, searchKey: from.searchKey}
	}
	return destination{}
}

// exchange returns the servers of the longest stub domain that contains the name, or else
// the upstream servers.
func (f *Forwarding) exchange(name fqdn.Name) Exchange {
	best := Stub{Exchange: f.Upstream}
	for _, stub := range f.Stubs {
		if _, ok := name.Within(stub.Zone); ok && len(stub.Zone) > len(best.Zone) {
			best = stub
		}
	}
	return best.Exchange
}

// forward answers from the cache, or else from other servers.
func (s *Server) forward(ctx context.Context, q *query, buf []byte) result {
	if q.qtype == dns.TypeANY { // RFC 8482 section 4.2
		return result{answer: answer{source: fromServer, answer: []dns.RR{minimal(q.owner())}}}
	}
	from := s.forwarding.Load()
	to := s.destination(from, q.name)
	if to.exchange == nil {
		a := failure(fromServer, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured")
		a.rcode = dns.RcodeRefused
		return result{answer: a}
	}
	hit := s.cfg.Cache.Get(q.cacheKey(to.searchKey), q.received)
	s.metrics.lookups[hit.State].Inc()
	switch hit.State {
	case cache.Fresh:
		return result{answer: q.cached(&hit, fromCache, buf)}
	case cache.Expiring:
		refresh := q.clone()
		s.background(ctx, func(ctx context.Context) { s.ask(ctx, refresh, from) })
		return result{answer: q.cached(&hit, fromCache, buf)}
	case cache.Failing:
		return result{answer: q.cached(&hit, fromStale, buf)}
	case cache.Stale:
		stale := q.cached(&hit, fromStale, nil) // the hit refers to the packet
		return result{wait: func(ctx context.Context) answer { return s.askOrStale(ctx, q, from, stale) }}
	}
	return result{wait: func(ctx context.Context) answer { return s.ask(ctx, q, from) }}
}

// cached returns the answer that the cache has, in wire form.
func (q *query) cached(hit *cache.Hit, from source, buf []byte) answer {
	a := answer{source: from}
	a.wire = hit.Append(buf[:0], cache.ReplyOptions{ID: q.id, RD: q.flags&flagRD != 0, AD: q.do || q.flags&flagAD != 0})
	a.rcode = int(a.wire[3] & maskRcode)
	switch {
	case from == fromStale && a.rcode == dns.RcodeNameError:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleNXDOMAINAnswer}
	case from == fromStale:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}
	case a.rcode == dns.RcodeServerFailure:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeCachedError}
	}
	return a
}

// ask asks other servers and caches their reply.
func (s *Server) ask(ctx context.Context, q *query, from *Forwarding) answer {
	if !s.limits.forwarded.tryAcquire() { // not cached: no server was asked
		return failure(fromServer, dns.ExtendedErrorCodeOther, "too many queries are waiting for upstream servers")
	}
	defer s.limits.forwarded.release()
	to := s.destination(from, q.name)
	m := q.message()
	reply, err := s.exchange(ctx, q, m, to, from)
	key := q.cacheKey(to.searchKey)
	current := s.forwarding.Load() == from // else the reply is of servers that were replaced
	if err != nil {
		if current && ctx.Err() == nil { // not because Run ends
			s.cfg.Cache.Put(key, new(dns.Msg).SetRcode(m, dns.RcodeServerFailure), time.Now())
		}
		s.log.Debug("no upstream server answered", "name", q.owner(), "type", dns.Type(q.qtype), "error", err)
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "no upstream server answered") // err has addresses
	}
	if current && m.RecursionDesired { // without RD the reply may be a referral
		s.cfg.Cache.Put(key, reply, time.Now())
	}
	if reply.Truncated && q.via == overTCP { // there is nothing left that the client could try
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "the upstream server's reply is too long for UDP, and TCP to it does not work")
	}
	a := answerOf(reply, fromUpstream)
	a.answer = withOwnerCase(a.answer, q.owner())
	return a
}

func (s *Server) exchange(ctx context.Context, q *query, m *dns.Msg, to destination, from *Forwarding) (*dns.Msg, error) {
	if to.expand {
		return s.askExpander(ctx, q, m, from)
	}
	return to.exchange(ctx, m)
}

// withOwnerCase returns the records with the owner name as the client spelled it (RFC 4343
// section 4.1). The reply may have been asked for with another spelling, and is shared.
func withOwnerCase(records []dns.RR, name string) []dns.RR {
	for i, rr := range records {
		if owner := rr.Header().Name; owner != name && strings.EqualFold(owner, name) {
			records = slices.Clone(records)
			records[i] = dns.Copy(rr)
			records[i].Header().Name = name
		}
	}
	return records
}

// staleDelay is how long a client waits before it gets a stale answer (RFC 8767 section 5).
const staleDelay = 1800 * time.Millisecond

// askOrStale asks other servers, and returns the stale answer if they fail or take longer
// than staleDelay. They are waited for nevertheless, so that the next client gets the new
// answer.
func (s *Server) askOrStale(ctx context.Context, q *query, from *Forwarding, stale answer) answer {
	fresh := make(chan answer, 1)
	s.background(ctx, func(ctx context.Context) { fresh <- s.ask(ctx, q, from) })
	delay := time.NewTimer(staleDelay)
	defer delay.Stop()
	select {
	case a := <-fresh:
		if a.rcode != dns.RcodeServerFailure {
			return a
		}
	case <-delay.C:
	case <-ctx.Done():
	}
	return stale
}
