// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Exchange sends a query to other servers. The reply has the question of the query. An error means that there is no
// valid reply: no query was sent, no server answered, or the reply is malformed. An Exchange is safe for concurrent
// use. It must not change the query, and the caller must not change the reply.
type Exchange func(ctx context.Context, query *dns.Msg) (*dns.Msg, error)

// Stub is a stub domain: a domain with upstream servers of its own. The zero value is invalid.
type Stub struct {
	Zone     fqdn.Name // queries for this name and the names below it are sent to the servers
	Exchange Exchange  // sends a query to the servers
	Cluster  bool      // in a node cache: the servers are the cluster DNS

	// Authoritative: Exchange has all names of the zone. The server looks up the target of an alias in its reply.
	Authoritative bool

	// LastKnownGood is how long the last answer is served after the first denial by the servers. 0: denials are
	// served, as those of the cluster DNS and of a zone file must be.
	LastKnownGood time.Duration

	outages *outageDetector // of the servers, set by SetForwarding
}

// Forwarding configures the servers for names outside the zone. With the zero value such names get REFUSED.
type Forwarding struct {
	Upstream Exchange // nil: names outside of Stubs get REFUSED
	Stubs    []Stub   // in a node cache, one with the zone Config.Domain and Cluster set

	// Expander is the cluster DNS server of a node cache. Names below the autopath domain are sent to it with their
	// search list, which it expands. nil: this server expands them itself.
	Expander Exchange

	// HostSuffixes are the search domains of the node: for Clients, and the last part of the search lists
	// for the Expander. Domains after the first MaxHostSuffixes are ignored. Without an
	// Expander, Autopath.HostSuffixes is used instead. The slice must not be changed.
	HostSuffixes []fqdn.Name

	LastKnownGood time.Duration // of Upstream, as in a Stub

	searchKey []byte // the concatenated HostSuffixes, part of the cache keys of autopath names

	// Set by SetForwarding.
	stubInZone                       bool // a stub domain may be in the zone; its names are then forwarded
	upstreamOutages, expanderOutages *outageDetector
	generation                       cache.Generation // the reply to a query sent under an older Forwarding is not cached
}

// SetForwarding replaces the Forwarding and clears the cache: the new servers may return different answers. Call it
// again when the servers behind the same Exchange change. It is safe for concurrent use.
func (s *Server) SetForwarding(f Forwarding) {
	f.setHostSuffixes(f.HostSuffixes)
	f.upstreamOutages, f.expanderOutages = &outageDetector{zone: fqdn.Root}, new(outageDetector)
	f.Stubs = slices.Clone(f.Stubs)
	for i, stub := range f.Stubs {
		f.Stubs[i].outages = &outageDetector{zone: stub.Zone}
		f.stubInZone = f.stubInZone || !s.nodeCache && s.mayBeInZone(stub.Zone)
	}
	s.forwardingMu.Lock() // so that the last Forwarding stored has the last generation
	defer s.forwardingMu.Unlock()
	f.generation = s.cfg.Cache.Clear()
	s.forwarding.Store(&f)
}

// mayBeInZone reports whether a name, such as that of a stub domain, is in the cluster domain or an external zone, or a
// reverse name.
func (s *Server) mayBeInZone(name fqdn.Name) bool {
	contains := func(zone fqdn.Name) bool { _, ok := name.Within(zone); return ok }
	return contains(s.cfg.Domain) || slices.ContainsFunc(s.cfg.Zone.External(), contains) || isReverse(name)
}

func isReverse(name fqdn.Name) bool {
	_, v4 := name.Within(zone.InAddrArpa)
	_, v6 := name.Within(zone.IP6Arpa)
	return v4 || v6
}

// SetHostSuffixes replaces the HostSuffixes of the Forwarding. The cache keeps its
// replies: their keys contain the suffixes. It is safe for concurrent use.
func (s *Server) SetHostSuffixes(suffixes []fqdn.Name) {
	s.forwardingMu.Lock()
	defer s.forwardingMu.Unlock()
	next := *s.forwarding.Load()
	next.setHostSuffixes(suffixes)
	s.forwarding.Store(&next)
}

func (f *Forwarding) setHostSuffixes(suffixes []fqdn.Name) {
	f.HostSuffixes = suffixes[:min(len(suffixes), MaxHostSuffixes)]
	f.searchKey = nil
	for _, name := range f.HostSuffixes {
		f.searchKey = append(f.searchKey, name...)
	}
}

// destination describes where queries for a name are forwarded.
type destination struct {
	Stub                   // its Exchange is nil: queries get REFUSED
	expand     bool        // the Exchange is the Expander, which receives the search list
	forwarding *Forwarding // the Forwarding that has this Exchange
}

// destinationOf returns the destination of queries for a name. Autopath names are sent to the
// Expander only, even if such a name is the target of an ExternalName Service.
func (s *Server) destinationOf(fwd *Forwarding, name fqdn.Name) destination {
	kind, _ := s.autopath.Parse(name)
	switch {
	case kind == autopath.NotInZone:
		return destination{Stub: fwd.stubFor(name), forwarding: fwd}
	case kind == autopath.Search && fwd.Expander != nil:
		return destination{Stub: Stub{Exchange: fwd.Expander, Cluster: true, outages: fwd.expanderOutages}, expand: true, forwarding: fwd}
	}
	return destination{}
}

// kindOf returns the kind of the budget of a query that is forwarded for a name.
func (s *Server) kindOf(to destination, name fqdn.Name) queryKind {
	switch {
	case to.expand:
		return kindSearch
	case s.nodeCache && to.Zone == s.cfg.Domain:
		return kindCluster
	case isReverse(name):
		return kindReverse
	}
	return kindPlain
}

// stubFor returns the longest stub domain that contains the name, or else the upstream servers. Of
// two stub domains with the same name the last one wins.
func (f *Forwarding) stubFor(name fqdn.Name) Stub {
	best := Stub{Exchange: f.Upstream, LastKnownGood: f.LastKnownGood, outages: f.upstreamOutages}
	for _, stub := range f.Stubs {
		if _, ok := name.Within(stub.Zone); ok && len(stub.Zone) >= len(best.Zone) {
			best = stub
		}
	}
	return best
}

// Exchange sends a query to the servers of its name, past the cache.
func (f *Forwarding) Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	name, err := fqdn.ParseName(query.Question[0].Name)
	if exchange := f.stubFor(name).Exchange; err == nil && exchange != nil {
		return exchange(ctx, query)
	}
	return nil, errors.Join(err, errors.New("no upstream server is configured"))
}

// forward answers names outside the zone: from the local names, the cache, or other servers.
// Queries of type ANY get a minimal answer.
func (s *Server) forward(ctx context.Context, q *query) result {
	if q.qtype == dns.TypeANY { // RFC 8482 section 4.2
		return result{answer: answer{source: fromServer, answers: []dns.RR{anyRecord(q.presentationName())}}}
	}
	fwd := s.forwarding.Load()
	if apex := s.local.find(q.name); apex != "" && len(apex) > len(fwd.stubFor(q.name).Zone) {
		return result{answer: q.localAnswer(apex)}
	}
	to := s.destinationOf(fwd, q.name)
	if to.Exchange == nil {
		a := failure(fromServer, dns.ExtendedErrorCodeNotAuthoritative, "no upstream server is configured")
		a.rcode = dns.RcodeRefused
		return result{answer: a}
	}
	if q.flags&flagRD == 0 {
		return s.forwardIterative(q, to)
	}
	hit := s.cfg.Cache.Get(to.cacheKey(q), q.received)
	state := hit.State
	if state == cache.Failing && to.outages.endedAfter(hit.FailedAt()) {
		state = cache.Stale // the servers reply again: do not wait for the end of the retry interval
	}
	s.metrics.cacheLookups[state].Inc()
	switch state {
	case cache.Expiring:
		copied := q.clone()
		s.prefetch(ctx, q.client, s.kindOf(to, q.name), func(ctx context.Context) { s.ask(ctx, copied, to) })
		fallthrough
	case cache.Fresh:
		return result{answer: hitAnswer(hit, fromCache)}
	case cache.Failing:
		return result{answer: hitAnswer(hit, fromStale)}
	case cache.Stale:
		return s.sendLater(q, to, func() answer { return hitAnswer(hit, fromStale) })
	}
	return s.sendLater(q, to, nil)
}

// cacheKey returns the cache key of the answer to q.
func (to destination) cacheKey(q *query) cache.Question {
	key := cache.Question{Name: q.questionName(), Type: q.qtype, Class: dns.ClassINET, DO: q.do, CD: q.flags&flagCD != 0}
	if to.expand {
		key.Paths = to.forwarding.searchKey
	}
	return key
}

// sendLater returns the result of a query that must be sent to other servers: a function that
// waits. stale returns the answer if they fail; nil: there is none.
func (s *Server) sendLater(q *query, to destination, stale func() answer) result {
	wait := func(ctx context.Context) answer { return s.ask(ctx, q, to) }
	return result{wait: wait, kind: s.kindOf(to, q.name), stale: stale}
}

// forwardIterative answers a query without RD: with a fresh answer of the cache, or else REFUSED,
// because the client has not asked for recursion. Names of a zone file get an answer, and a node cache forwards those
// in the cluster zone, for which it replaces the cluster DNS.
func (s *Server) forwardIterative(q *query, to destination) result {
	hit := s.cfg.Cache.Peek(to.cacheKey(q), q.received)
	s.metrics.cacheLookups[hit.State].Inc()
	kind := s.kindOf(to, q.name)
	switch {
	case hit.State == cache.Fresh:
		return result{answer: hitAnswer(hit, fromCache)}
	case kind == kindCluster, to.Authoritative:
		return s.sendLater(q, to, nil)
	}
	return result{answer: s.refuse(kind, refusedRecursion)}
}

// hitAnswer returns the answer of a cache hit.
func hitAnswer(hit cache.Hit, from source) answer {
	a := answer{source: from, rcode: hit.Rcode(), hit: hit}
	switch {
	case from == fromStale && hit.Denied():
		a.source = fromLastGood
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer,
			ExtraText: "last known good answer: its servers deny it now"}
	case from == fromStale && a.rcode == dns.RcodeNameError:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleNXDOMAINAnswer}
	case from == fromStale:
		a.extended = &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer}
	case from == fromCache && a.rcode == dns.RcodeServerFailure: // the error "Cached Error" is for SERVFAIL only (RFC 8914 section 4.14)
		a.cachedFailure, a.extended = true, causes[hit.Cause()]
	}
	return a
}

// ask sends q to other servers and caches their reply. Thousands of queries may wait here: their stacks have 8 KiB while
// no frame from the goroutine to the socket is large, and 16 KiB otherwise (TestSlots_Stack).
func (s *Server) ask(ctx context.Context, q *query, to destination) answer {
	m := new(dns.Msg).SetQuestion(q.presentationName(), q.qtype).SetEdns0(maxUDP, q.do)
	m.RecursionDesired, m.CheckingDisabled = q.flags&flagRD != 0, q.flags&flagCD != 0
	begin := time.Now()
	reply, err := s.exchange(ctx, q, m, to)
	if err != nil {
		return s.recordFailure(ctx, q, m, to, begin, err)
	}
	return s.recordReply(q, m, to, begin, reply)
}

// recordFailure returns the answer to q after an error of exchange for m, which began at a time. It caches the failure
// unless that says nothing about the name.
func (s *Server) recordFailure(ctx context.Context, q *query, m *dns.Msg, to destination, begin time.Time, err error) answer {
	if reason, ok := errors.AsType[refusalReason](err); ok { // from exchange, and counted already
		return refusedAnswer(reason)
	}
	if reason := refusalOf(err); reason != notRefused {
		return s.refuse(s.kindOf(to, q.name), reason)
	}
	if s.cfg.Paused != nil && s.cfg.Paused() {
		return s.refuse(s.kindOf(to, q.name), refusedPaused)
	}
	why := causeOf(err)
	// Servers may drop a query without RD: that is not a fact about the name.
	if m.RecursionDesired && ctx.Err() == nil { // neither shutdown nor a replaced slot has ended the query
		to.outages.recordFailure(begin)
		options := s.putOptions(q, to, begin)
		options.Cause = why
		s.cfg.Cache.Put(to.cacheKey(q), new(dns.Msg).SetRcode(m, dns.RcodeServerFailure), time.Now(), options)
	}
	return answer{source: fromUpstream, rcode: dns.RcodeServerFailure, extended: causes[why]}
}

// recordReply caches the reply to m, which was sent at a time, and returns the answer to q.
func (s *Server) recordReply(q *query, m *dns.Msg, to destination, begin time.Time, reply *dns.Msg) answer {
	to.outages.recordReply(time.Now())
	if to.Cluster && isLimitFailure(reply) {
		return s.refuse(s.kindOf(to, q.name), refusedUpstream)
	}
	key, options := to.cacheKey(q), s.putOptions(q, to, begin)
	if s.otherFamilyFailed(key, reply) {
		return failure(fromUpstream, dns.ExtendedErrorCodeOther, "the query for the addresses of the other family failed")
	}
	options.Discard = !m.RecursionDesired // the reply may be a referral
	hit, _ := s.cfg.Cache.Put(key, reply, time.Now(), options)
	if hit.State == cache.Miss {
		return failure(fromUpstream, dns.ExtendedErrorCodeOther, "the upstream server's reply is too long")
	}
	if reply.Truncated && q.via == overTCP { // the client cannot retry over another transport
		return failure(fromUpstream, dns.ExtendedErrorCodeNetworkError,
			"the upstream server's reply is truncated, and TCP to the server failed")
	}
	return s.upstreamAnswer(q, to, hit)
}

// putOptions returns how the reply to q is cached, which was sent at a time.
func (s *Server) putOptions(q *query, to destination, begin time.Time) cache.PutOptions {
	options := cache.PutOptions{Generation: to.forwarding.generation, SentAt: begin, LastKnownGood: to.LastKnownGood}
	if _, inDomain := q.name.Within(s.cfg.Domain); inDomain || to.expand {
		options.RetryInterval = clusterRetryInterval
	}
	return options
}

// exchange sends m, which asks for q, to the servers or the Expander.
func (s *Server) exchange(ctx context.Context, q *query, m *dns.Msg, to destination) (*dns.Msg, error) {
	if to.expand {
		return s.askExpander(ctx, q, m, to)
	}
	reply, err := to.Exchange(ctx, m)
	if err != nil || !to.Authoritative || len(reply.Answer) == 0 || q.qtype == dns.TypeCNAME {
		return reply, err
	}
	return s.followAlias(ctx, q, reply)
}

// followAlias returns the reply of a zone in Stub.Authoritative with the answer for the target, if it is an alias.
func (s *Server) followAlias(ctx context.Context, q *query, reply *dns.Msg) (*dns.Msg, error) {
	alias, ok := reply.Answer[0].(*dns.CNAME)
	if !ok {
		return reply, nil
	}
	q = q.clone()
	q.allowed = true // the reply is cached for all clients
	target := s.answerTarget(ctx, q, alias.Target).await(ctx).withRecords()
	switch {
	case target.rcode == dns.RcodeRefused: // the target is not served: the alias is the answer
		return reply, nil
	case target.refused != notRefused:
		return nil, target.refused
	}
	reply = reply.Copy()
	reply.Rcode, reply.Answer, reply.Ns = target.rcode, append(reply.Answer, target.answers...), target.authority
	return reply, nil
}

// otherFamilyFailed reports whether reply is NODATA for A, and the query for AAAA failed just now, or the other way
// round. glibc sends both at once. If it gets SERVFAIL for one, NODATA for the other ends the lookup with EAI_NODATA:
// the name has no addresses. That is wrong while servers start, and SERVFAIL for both makes it EAI_AGAIN.
func (s *Server) otherFamilyFailed(key cache.Question, reply *dns.Msg) bool {
	isOfType := func(rr dns.RR) bool { return rr.Header().Rrtype == key.Type }
	if reply.Rcode != dns.RcodeSuccess || slices.ContainsFunc(reply.Answer, isOfType) {
		return false
	}
	other := key
	switch key.Type {
	case dns.TypeA:
		other.Type = dns.TypeAAAA
	case dns.TypeAAAA:
		other.Type = dns.TypeA
	default:
		return false
	}
	hit := s.cfg.Cache.Peek(other, time.Now())
	return hit.State == cache.Fresh && hit.Rcode() == dns.RcodeServerFailure
}

// upstreamAnswer returns the answer of a reply of other servers. If the hit is the last known good answer
// instead, it logs that, once for a zone while that goes on.
func (s *Server) upstreamAnswer(q *query, to destination, hit cache.Hit) answer {
	from := fromUpstream
	if hit.State == cache.Failing {
		from = fromStale
		if to.outages.recordDenied(time.Now(), to.LastKnownGood) {
			s.log.Warn("servers deny names that they have answered, serving the last known good answers",
				"zone", to.outages.zone.String(), "name", q.presentationName(), "type", dns.Type(q.qtype), "for", to.LastKnownGood)
		}
	}
	return hitAnswer(hit, from)
}
