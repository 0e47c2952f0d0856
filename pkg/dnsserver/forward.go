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

// Stub is a stub domain: a domain with separate servers.
type Stub struct {
	Zone     fqdn.Name
	Exchange Exchange
}

// Forwarding configures the servers for names outside the cluster. With the zero value such
// names are refused.
type Forwarding struct {
	Upstream Exchange // nil: names outside of Stubs are refused
	Stubs    []Stub

	// Expander is the cluster DNS server of a node cache. Names below the autopath suffix
	// are sent to it with their search list, which it expands. nil: this server expands
	// them itself.
	Expander Exchange

	// HostSuffixes are the search domains of the node, the last part of the search lists
	// for the Expander. Without an Expander, Autopath.HostSuffixes is used instead. Those
	// after the first MaxHostSuffixes are ignored. The slice must not be changed.
	HostSuffixes []fqdn.Name

	searchKey []byte // the concatenated HostSuffixes, part of the cache keys of autopath names
}

// SetForwarding replaces the Forwarding and clears the cache: the new servers may return
// different answers. Call it again when the servers behind the same Exchange change. It is
// safe for concurrent use.
func (s *Server) SetForwarding(f Forwarding) {
	f.setHostSuffixes(f.HostSuffixes)
	s.forwarding.Store(&f)
	s.cfg.Cache.Clear()
}

// SetHostSuffixes replaces the HostSuffixes of the Forwarding. The cache keeps its
// replies: their keys contain the suffixes. It is safe for concurrent use.
func (s *Server) SetHostSuffixes(suffixes []fqdn.Name) {
	for {
		current := s.forwarding.Load()
		next := *current
		next.setHostSuffixes(suffixes)
		if s.forwarding.CompareAndSwap(current, &next) {
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

// destination is the server that queries for a name are forwarded to.
type destination struct {
	exchange  Exchange // nil: queries are refused
	expand    bool     // exchange is the Expander, which is sent the search list
	searchKey []byte
}

// destinationOf returns the destination of queries for a name. Autopath names are sent to the
// Expander only, even if such a name is the target of an ExternalName Service.
func (s *Server) destinationOf(fwd *Forwarding, name fqdn.Name) destination {
	kind, _ := s.search.Parse(name)
	switch {
	case kind == autopath.NotInZone:
		return destination{exchange: fwd.exchangeFor(name)}
	case kind == autopath.Search && fwd.Expander != nil:
		return destination{exchange: fwd.Expander, expand: true, searchKey: fwd.searchKey}
	}
	return destination{}
}

// exchangeFor returns the servers of the longest stub domain that contains the name, or else
// the upstream servers.
func (f *Forwarding) exchangeFor(name fqdn.Name) Exchange {
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
		return result{answer: answer{source: fromServer, answer: []dns.RR{minimalHINFO(q.owner())}}}
	}
	fwd := s.forwarding.Load()
	to := s.destinationOf(fwd, q.name)
	if to.exchange == nil {
		a := failure(fromServer, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured")
		a.rcode = dns.RcodeRefused
		return result{answer: a}
	}
	hit := s.cfg.Cache.Get(q.cacheKey(to.searchKey), q.received)
	s.metrics.lookups[hit.State].Inc()
	switch hit.State {
	case cache.Fresh:
		return result{answer: q.cachedAnswer(&hit, fromCache, buf)}
	case cache.Expiring:
		refresh := q.clone()
		s.goTracked(ctx, func(ctx context.Context) { s.ask(ctx, refresh, fwd) })
		return result{answer: q.cachedAnswer(&hit, fromCache, buf)}
	case cache.Failing:
		return result{answer: q.cachedAnswer(&hit, fromStale, buf)}
	case cache.Stale:
		stale := q.cachedAnswer(&hit, fromStale, nil) // now: the hit refers to the packet, which is reused
		return result{wait: func(ctx context.Context) answer { return s.askOrStale(ctx, q, fwd, stale) }}
	}
	return result{wait: func(ctx context.Context) answer { return s.ask(ctx, q, fwd) }}
}

// cachedAnswer returns the answer of a cache hit, in wire form.
func (q *query) cachedAnswer(hit *cache.Hit, from source, buf []byte) answer {
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

// ask sends q to other servers and caches their reply.
func (s *Server) ask(ctx context.Context, q *query, fwd *Forwarding) answer {
	if !s.limits.forwarded.tryAcquire() { // not cached: no query was sent
		return failure(fromServer, dns.ExtendedErrorCodeOther, "too many queries are waiting for upstream servers")
	}
	defer s.limits.forwarded.release()
	to := s.destinationOf(fwd, q.name)
	m := q.message()
	reply, err := s.send(ctx, q, m, to, fwd)
	key := q.cacheKey(to.searchKey)
	current := s.forwarding.Load() == fwd // a reply of replaced servers is not cached
	if err != nil {
		if current && ctx.Err() == nil { // the server is not shutting down
			s.cfg.Cache.Put(key, new(dns.Msg).SetRcode(m, dns.RcodeServerFailure), time.Now())
		}
		s.log.Debug("no upstream server answered", "name", q.owner(), "type", dns.Type(q.qtype), "error", err)
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "no upstream server answered") // without err, which discloses server addresses
	}
	if current && m.RecursionDesired { // without RD the reply may be a referral
		s.cfg.Cache.Put(key, reply, time.Now())
	}
	if reply.Truncated && q.via == overTCP { // the client cannot retry over another transport
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError, "the upstream server's reply is truncated, and TCP to the server failed")
	}
	a := answerOf(reply, fromUpstream)
	a.answer = withOwnerCase(a.answer, q.owner())
	return a
}

// send sends m, the query to send for q, to the destination.
func (s *Server) send(ctx context.Context, q *query, m *dns.Msg, to destination, fwd *Forwarding) (*dns.Msg, error) {
	if to.expand {
		return s.askExpander(ctx, q, m, fwd)
	}
	return to.exchange(ctx, m)
}

// withOwnerCase returns the records with the owner name in the case of the client's query
// (RFC 4343 section 4.1). The records are shared with queries in another case.
func withOwnerCase(records []dns.RR, name string) []dns.RR {
	differs := func(rr dns.RR) bool { return rr.Header().Name != name && strings.EqualFold(rr.Header().Name, name) }
	if !slices.ContainsFunc(records, differs) {
		return records
	}
	records = slices.Clone(records)
	for i, rr := range records {
		if differs(rr) {
			records[i] = dns.Copy(rr)
			records[i].Header().Name = name
		}
	}
	return records
}

// staleDelay is how long a client waits before it gets a stale answer (RFC 8767 section 5).
const staleDelay = 1800 * time.Millisecond

// askOrStale sends q to other servers. It returns the stale answer if they fail or take longer
// than staleDelay. The query continues then, so that the next client gets the new answer.
func (s *Server) askOrStale(ctx context.Context, q *query, fwd *Forwarding, stale answer) answer {
	fresh := make(chan answer, 1)
	s.goTracked(ctx, func(ctx context.Context) { fresh <- s.ask(ctx, q, fwd) })
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
