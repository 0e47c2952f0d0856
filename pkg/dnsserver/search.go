// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// MaxHostSuffixes is the largest number of domains outside the cluster in a search list. Each may
// cost an upstream query. glibc before 2.26 uses at most six domains, three of which are the
// cluster's, and musl those of a line of at most 254 characters.
const MaxHostSuffixes = 8

// maxSubqueries is the largest number of queries for names outside the cluster zone that one expansion causes: one of
// type A for each of MaxHostSuffixes and for the bare name, and one of another type for the name that is found (see
// lookupTypes). More are refused. More are needed only if candidates exist without A records, or for a type such as
// MX of a name that has only AAAA records.
const maxSubqueries = MaxHostSuffixes + 2

// Autopath configures the expansion of search lists.
type Autopath struct {
	// HostSuffixes are the search domains of the nodes. In the search list of a name below autopath.Suffix they
	// follow those of the cluster. Domains after the first MaxHostSuffixes are ignored.
	HostSuffixes []fqdn.Name

	// NodeCaches is the Service of the node caches. The option is ignored unless the client is one of its endpoints,
	// because a query with a search list costs as much as many queries. The zero value refers to no Service.
	NodeCaches Service

	// Allowed are the networks of the clients that may use the option, instead of the
	// endpoints of NodeCaches. nil: those endpoints; empty, not nil: no client.
	Allowed []netip.Prefix
}

// Service is the name of a Service. The zero value refers to no Service.
type Service struct{ Namespace, Name string }

// How a query requests an expansion: values of the metric label "by".
const (
	byName   = "name"   // its name is below the autopath domain
	byOption = "option" // it has the option SearchPaths
)

// Why the option SearchPaths of a query was ignored: values of the metric label "reason".
const (
	reasonSource    = "source"    // the client is not allowed to use the option
	reasonMalformed = "malformed" // the value is invalid, or there are several options
	reasonLength    = "length"    // more than MaxHostSuffixes domains outside the cluster zone
)

// expandSearch answers queries with a search list, and all names of the autopath zone. ok is false for all others.
func (s *Server) expandSearch(ctx context.Context, q *query) (r result, ok bool) {
	kind, request := s.autopath.Parse(q.name)
	if kind == autopath.Search && s.forwarding.Load().Expander != nil {
		return s.forward(ctx, q), true // from the cache, or through askExpander
	}
	if kind != autopath.NotInZone {
		if denied := s.rules.Load().deny(q); denied != nil {
			return result{answer: *denied}, true
		}
		return s.expandName(ctx, q, kind, request), true
	}
	var value []byte
	count := 0 // of options with the code
	for options := q.options; len(options) > 0; {
		end := optionHeaderLen + int(binary.BigEndian.Uint16(options[2:]))
		if binary.BigEndian.Uint16(options) == autopath.Option {
			value, count = options[optionHeaderLen:end], count+1
		}
		options = options[end:]
	}
	if count > 0 {
		if paths := s.searchPaths(q, value, count); paths != nil {
			return s.expandOption(ctx, q, paths), true
		}
	}
	return result{}, false
}

// expandName answers for a name of the autopath zone, which this server is authoritative for.
func (s *Server) expandName(ctx context.Context, q *query, kind autopath.Kind, request autopath.Request) result {
	snapshot := s.cfg.Zone.Snapshot()
	a := answer{source: fromServer, authoritative: true}
	switch {
	case q.qtype == dns.TypeANY:
		a.answers = []dns.RR{anyRecord(q.presentationName())} // without a walk
	case kind == autopath.Search:
		paths := s.autopath.SearchPaths(request.Namespace, s.cfg.Autopath.HostSuffixes)
		candidates := s.autopath.Candidates(request.Name, paths)
		return s.walkName(ctx, q, candidates, snapshot).then(func(a answer) answer {
			a.authoritative = a.rcode != dns.RcodeServerFailure // for the CNAME record, or for NXDOMAIN and NODATA
			return a
		})
	case kind == autopath.Malformed:
		a.rcode = dns.RcodeNameError
	case q.name == autopath.Suffix && q.qtype == dns.TypeSOA:
		soa := s.soa(autopath.Suffix, snapshot)
		soa.Hdr.Name = q.presentationName()
		a.answers = []dns.RR{soa}
	case q.name == autopath.Suffix && q.qtype == dns.TypeNS:
		a.answers = []dns.RR{&dns.NS{Hdr: header(q.presentationName(), dns.TypeNS, s.cfg.TTL), Ns: s.primary.String()}}
	} // all other names are empty non-terminals: NODATA
	return result{answer: s.withSOA(a, s.negativeTTL(snapshot), snapshot)}
}

// walkName answers q, whose name is an autopath name, with the result of a walk.
func (s *Server) walkName(ctx context.Context, q *query, candidates []fqdn.Name, snapshot *zone.Snapshot) result {
	return s.walkCandidates(ctx, q, byName, candidates, snapshot, func(lr lookupResult) answer {
		a, ttl := s.walkAnswer(q, lr), s.negativeTTL(snapshot)
		if lr.outcome != found {
			ttl, a.authority = min(ttl, lr.ttl), nil
		}
		return s.withSOA(a, ttl, snapshot)
	})
}

// withSOA replaces the authority section of a negative answer by the SOA record of the
// autopath zone with the negative TTL. It returns other answers unchanged.
func (s *Server) withSOA(a answer, ttl uint32, snapshot *zone.Snapshot) answer {
	if len(a.answers) == 0 && a.rcode != dns.RcodeServerFailure {
		soa := s.soa(autopath.Suffix, snapshot)
		soa.Hdr.Ttl, soa.Minttl = min(soa.Hdr.Ttl, ttl), ttl
		a.authority = []dns.RR{soa}
	}
	return a
}

// expandOption answers a query that has the search list in its option. The client is a node cache. The reply echoes
// the option: without the echo the node cache expands the list itself, within the shares of its pods. The reply has
// no echo if a subquery is refused, except after refusedSubqueries, see refusalReason.allowsFallback.
func (s *Server) expandOption(ctx context.Context, q *query, paths []fqdn.Name) result {
	snapshot := s.cfg.Zone.Snapshot()
	return s.walkCandidates(ctx, q, byOption, s.autopath.Candidates(q.name, paths), snapshot, func(lr lookupResult) answer {
		a := s.walkAnswer(q, lr)
		if a.refused.allowsFallback() {
			return a
		}
		a.echo = autopath.Option
		if a.rcode != dns.RcodeServerFailure && len(a.answers)+len(a.authority) == 0 {
			// The authority section of the negative answer for the bare name, from the zone or the cache: the
			// walk has just queried the other servers. It is empty if neither has the answer.
			bare := q.subquery(q.name, dns.TypeA)
			r, ok := s.zoneRecords(ctx, bare, snapshot)
			if !ok {
				r = s.forward(ctx, bare)
			}
			a.authority = capTTL(r.answer.withRecords().authority, lr.ttl)
		}
		return a
	})
}

// searchPaths returns the search list in the value of the option SearchPaths of a query, or nil if the option is
// ignored. A malformed option is ignored, and so are all options if there are several: no rcode exists for that.
func (s *Server) searchPaths(q *query, value []byte, count int) []fqdn.Name {
	if !s.mayExpand(q.client) {
		s.metrics.autopath.ignored.WithLabelValues(reasonSource).Inc()
		return nil
	}
	paths, err := autopath.Decode(value)
	if err != nil || count > 1 {
		s.metrics.autopath.ignored.WithLabelValues(reasonMalformed).Inc()
		return nil
	}
	if q.qtype == dns.TypeANY || q.name == fqdn.Root {
		return nil // the answer does not depend on the list
	}
	outside := slices.DeleteFunc(slices.Clone(paths), func(p fqdn.Name) bool { _, ok := p.Within(s.cfg.Domain); return ok })
	if len(outside) > MaxHostSuffixes {
		s.metrics.autopath.ignored.WithLabelValues(reasonLength).Inc()
		return nil
	}
	return paths
}

// mayExpand reports whether a client is allowed to use the option.
func (s *Server) mayExpand(client netip.Addr) bool {
	client = clientKey(client) // Contains does not match IPv4-mapped addresses and zones
	if allowed := s.cfg.Autopath.Allowed; allowed != nil {
		return slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(client) })
	}
	service := s.cfg.Autopath.NodeCaches
	return client.IsValid() && s.cfg.Zone.Snapshot().HasEndpoint(service.Namespace, service.Name, client)
}

// The results of sending a search list to the cluster DNS server: values of the metric label "result".
const (
	sentExpanded = "expanded" // the reply echoes the option
	sentIgnored  = "silent"   // the reply is for the bare name alone
	sentRefused  = "refused"  // a subquery was refused at a limit of the cluster DNS server
	sentFailed   = "failed"   // no reply
)

// askExpander resolves an autopath name through the cluster DNS server. It sends the bare
// name, which is the part before the label "search", with the search list as option. It returns
// the reply as a reply to m, the query for the whole autopath name. A reply without the echo
// is an answer for the bare name alone: the node cache then tries the candidates itself.
//
// The caller caches the reply under the autopath name and the host suffixes, which together
// determine the search list.
//
// All pods of the node are one client of the cluster DNS server. If the cluster DNS server is at a limit,
// its reply has no echo, and the node cache expands the list with its own slots.
func (s *Server) askExpander(ctx context.Context, q *query, m *dns.Msg, to destination) (*dns.Msg, error) {
	_, request := s.autopath.Parse(q.name)
	paths := s.autopath.SearchPaths(request.Namespace, to.forwarding.HostSuffixes)
	candidates := s.autopath.Candidates(request.Name, paths)
	if value, err := autopath.Encode(paths); err == nil { // else the host suffixes are too long for the option
		bare := m.Copy()
		bare.Question[0].Name = request.Name.String()
		bare.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: autopath.Option, Data: value}}
		reply, err := to.Exchange(ctx, bare)
		if err != nil {
			s.metrics.autopath.sent.WithLabelValues(sentFailed).Inc()
			return nil, fmt.Errorf("cluster DNS: %w", err)
		}
		if s.isExpanded(reply) {
			return s.expansionReply(m, reply, request.Name, candidates), nil
		}
	}
	return s.expandHere(ctx, q, m, candidates)
}

// isExpanded counts a reply of the cluster DNS server to a search list, and reports whether the server has expanded it.
func (s *Server) isExpanded(reply *dns.Msg) bool {
	result := sentIgnored
	switch {
	case s.echoes(reply):
		result = sentExpanded
	case isLimitFailure(reply):
		result = sentRefused
	case reply.Rcode != dns.RcodeServerFailure:
		s.logIgnoredOnce.Do(func() {
			s.log.Warn("cluster DNS ignored a search list, expanding it here: " +
				"set autopathService or autopathNetworks of the cluster DNS")
		})
	}
	s.metrics.autopath.sent.WithLabelValues(result).Inc()
	return result == sentExpanded
}

// expansionReply returns the reply to m from the expansion of the cluster DNS server for a bare name.
func (s *Server) expansionReply(m, reply *dns.Msg, bare fqdn.Name, candidates []fqdn.Name) *dns.Msg {
	snapshot := s.cfg.Zone.Snapshot()
	a := fromExpansion(reply, m.Question[0], bare, candidates)
	return s.withSOA(a, min(a.negativeTTL(), s.negativeTTL(snapshot)), snapshot).replyTo(m)
}

// expandHere returns the reply to m, which asks for q, from an expansion by this server.
func (s *Server) expandHere(ctx context.Context, q *query, m *dns.Msg, candidates []fqdn.Name) (*dns.Msg, error) {
	sub := q.subquery(q.name, q.qtype)
	sub.question = q.question
	// Over UDP a truncated reply to a subquery does not fail. If q came over TCP, the caller of
	// askExpander turns a truncated result into a failure.
	sub.via = overUDP
	a := s.walkName(ctx, sub, candidates, s.cfg.Zone.Snapshot()).await(ctx)
	if a.refused != notRefused {
		return nil, a.refused
	}
	return a.replyTo(m), nil
}

// echoes reports whether the reply echoes the option: the server has expanded the search list.
func (s *Server) echoes(reply *dns.Msg) bool {
	opt := reply.IsEdns0()
	return opt != nil && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		local, ok := o.(*dns.EDNS0_LOCAL)
		return ok && local.Code == autopath.Option && len(local.Data) == 0
	})
}

// fromExpansion converts the reply of the cluster DNS server for a bare name into the answer
// for the autopath name of the question. The answer shares the records of the reply.
func fromExpansion(reply *dns.Msg, question dns.Question, bare fqdn.Name, candidates []fqdn.Name) answer {
	a := answerOf(reply, fromUpstream)
	a.authentic = false // the CNAME record is not signed
	switch {
	case a.failed():
		return answer{source: fromUpstream, rcode: dns.RcodeServerFailure}
	case len(a.answers) == 0:
		return a
	}
	ttl := uint32(noLimit)
	for _, rr := range a.answers {
		ttl = min(ttl, rr.Header().Ttl)
	}
	// A CNAME record of the bare name whose target is a candidate was added by the
	// expansion. Otherwise the bare name itself was found.
	owner := bare
	isAlias := func(rr dns.RR) bool {
		_, ok := rr.(*dns.CNAME)
		return ok && strings.EqualFold(rr.Header().Name, bare.String())
	}
	if i := slices.IndexFunc(a.answers, isAlias); i >= 0 {
		target, err := fqdn.ParseName(a.answers[i].(*dns.CNAME).Target)
		if err == nil && slices.Contains(candidates, target) {
			owner, a.answers = target, slices.Delete(slices.Clone(a.answers), i, i+1)
		}
	}
	alias := &dns.CNAME{Hdr: header(question.Name, dns.TypeCNAME, ttl), Target: owner.String()}
	if question.Qtype == dns.TypeCNAME {
		a.answers = nil
	}
	a.answers = append([]dns.RR{alias}, a.answers...)
	return a
}
