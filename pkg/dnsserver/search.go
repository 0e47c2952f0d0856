// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// DefaultAutopathSuffix is ap.k8s.io, the suffix of KEP-2009.
const DefaultAutopathSuffix fqdn.Name = "\x02ap\x03k8s\x02io\x00"

// MaxHostSuffixes is the number of host suffixes in a search list: the cluster's three
// domains take the rest.
const MaxHostSuffixes = autopath.MaxPaths - 3

// Autopath configures the expansion of search lists. The zero value has all defaults.
type Autopath struct {
	// Suffix is the domain below which names are expanded; "":
	// DefaultAutopathSuffix.
	Suffix fqdn.Name

	// HostSuffixes are the search domains of the nodes, which follow those of the cluster
	// in the search list of such a name. At most MaxHostSuffixes.
	HostSuffixes []fqdn.Name

	// Option is the code of the EDNS0 option SearchPaths; 0:
	// autopath.DefaultOption.
	Option uint16

	// Allowed are the networks of clients whose option is honoured: a query with a search
	// list costs as much as many queries. nil: DefaultAllowed; empty: none.
	Allowed []netip.Prefix
}

// DefaultAllowed returns the networks that nodes and pods usually have: loopback,
// link-local (RFC 3927, RFC 4291), private (RFC 1918, RFC 4193) and shared (RFC 6598).
func DefaultAllowed() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []string{
		"127.0.0.0/8", "::1/128", "169.254.0.0/16", "fe80::/10",
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "100.64.0.0/10",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

// withDefaults sets the defaults and returns the names that are expanded.
func (a *Autopath) withDefaults(domain fqdn.Name) (autopath.Zone, error) {
	if a.Suffix == "" {
		a.Suffix = DefaultAutopathSuffix
	}
	if a.Option == 0 {
		a.Option = autopath.DefaultOption
	}
	if a.Allowed == nil {
		a.Allowed = DefaultAllowed()
	}
	if a.Option < autopath.MinOption || a.Option > autopath.MaxOption {
		return autopath.Zone{}, fmt.Errorf("option %d: local use is %d to %d", a.Option, autopath.MinOption, autopath.MaxOption)
	}
	if n := len(a.HostSuffixes); n > MaxHostSuffixes {
		return autopath.Zone{}, fmt.Errorf("%d host suffixes: at most %d fit into a search list", n, MaxHostSuffixes)
	}
	if i := slices.Index(a.HostSuffixes, ""); i >= 0 {
		return autopath.Zone{}, fmt.Errorf("host suffix %d is empty", i+1)
	}
	return autopath.NewZone(a.Suffix, domain)
}

// What gave a query its search list, and why a list was ignored, as labels.
const (
	byName   = "name"
	byOption = "option"

	reasonSource    = "source"
	reasonMalformed = "malformed"
)

// searched answers queries with a search list, and all names of the autopath zone. ok is
// false for all others.
func (s *Server) searched(ctx context.Context, q *query, buf []byte) (r result, ok bool) {
	place, request := s.search.Parse(q.name)
	if place == autopath.Search && s.forwarding.Load().Expander != nil {
		return s.forward(ctx, q, buf), true
	}
	if place != autopath.NotInZone {
		return s.expandName(ctx, q, place, request), true
	}
	if paths := s.searchPaths(q); paths != nil {
		return s.expandOption(ctx, q, paths), true
	}
	return result{}, false
}

// expandName answers for a name of the autopath zone, which this server is authoritative
// for.
func (s *Server) expandName(ctx context.Context, q *query, place autopath.Kind, request autopath.Request) result {
	at := s.cfg.Zone.Snapshot()
	a := answer{source: fromServer, authoritative: true}
	switch {
	case q.qtype == dns.TypeANY:
		a.answer = []dns.RR{minimal(q.owner())} // without a walk
	case place == autopath.Search:
		paths := s.search.SearchPaths(request.Namespace, s.cfg.Autopath.HostSuffixes)
		return s.walkName(ctx, q, s.search.Candidates(request.Name, paths), at).then(func(a answer) answer {
			a.authoritative = a.rcode != dns.RcodeServerFailure
			return a
		})
	case place == autopath.Malformed:
		a.rcode = dns.RcodeNameError
	case q.name == s.search.Suffix:
		a.answer = s.autopathApex(q, at)
	}
	return result{answer: s.withSOA(a, s.denialTTL(at), at)}
}

// walkName answers q, an autopath name, with what a walk along the candidates finds.
func (s *Server) walkName(ctx context.Context, q *query, candidates []fqdn.Name, at *zone.Snapshot) result {
	return s.walk(ctx, q, byName, candidates, at, func(f finding) answer {
		a, denial := s.walkAnswer(q, f), s.denialTTL(at)
		if f.outcome != found {
			denial, a.authority = min(denial, f.ttl), nil
		}
		return s.withSOA(a, denial, at)
	})
}

// withSOA adds the SOA record of the autopath zone to a negative answer, with the negative
// TTL.
func (s *Server) withSOA(a answer, ttl uint32, at *zone.Snapshot) answer {
	if len(a.answer) == 0 && a.rcode != dns.RcodeServerFailure {
		soa := s.soa(s.search.Suffix, at)
		soa.Hdr.Ttl, soa.Minttl = min(soa.Hdr.Ttl, ttl), ttl
		a.authority = []dns.RR{soa}
	}
	return a
}

// autopathApex returns the records that the autopath suffix itself owns.
func (s *Server) autopathApex(q *query, at *zone.Snapshot) []dns.RR {
	switch owner := q.owner(); q.qtype {
	case dns.TypeSOA:
		soa := s.soa(s.search.Suffix, at)
		soa.Hdr.Name = owner
		return []dns.RR{soa}
	case dns.TypeNS:
		return []dns.RR{&dns.NS{Hdr: header(owner, dns.TypeNS, s.cfg.TTL), Ns: s.primary.String()}}
	}
	return nil
}

// expandOption answers for a name that came with a search list as option. The reply echoes
// the option: without the echo the client would try the list itself.
func (s *Server) expandOption(ctx context.Context, q *query, paths []fqdn.Name) result {
	at := s.cfg.Zone.Snapshot()
	return s.walk(ctx, q, byOption, s.search.Candidates(q.name, paths), at, func(f finding) answer {
		a := s.walkAnswer(q, f)
		a.echo = s.cfg.Autopath.Option
		if a.rcode != dns.RcodeServerFailure && len(a.answer)+len(a.authority) == 0 {
			a.authority = capTTL(s.denialOf(ctx, q, at), f.ttl)
		}
		return a
	})
}

// denialOf returns the SOA record of the zone in which the name itself does not exist,
// without asking other servers: the walk did so.
func (s *Server) denialOf(ctx context.Context, q *query, at *zone.Snapshot) []dns.RR {
	bare := q.subquery(q.name, dns.TypeA)
	r, ok := s.zoneRecords(ctx, bare, at)
	if !ok {
		r = s.forward(ctx, bare, nil)
	}
	return r.answer.withRecords().authority
}

// searchPaths returns the search list in a query's option, or nil if there is none, or it
// is ignored. A malformed list is ignored: no error code has a meaning for the client.
func (s *Server) searchPaths(q *query) []fqdn.Name {
	value, count := q.searchOption(s.cfg.Autopath.Option)
	if count == 0 {
		return nil
	}
	client := q.client.Unmap().WithZone("") // Contains is false for both
	if !slices.ContainsFunc(s.cfg.Autopath.Allowed, func(p netip.Prefix) bool { return p.Contains(client) }) {
		s.metrics.autopath.ignored.WithLabelValues(reasonSource).Inc()
		return nil
	}
	paths, err := autopath.Decode(value)
	if err != nil || count > 1 {
		s.metrics.autopath.ignored.WithLabelValues(reasonMalformed).Inc()
		return nil
	}
	if q.qtype == dns.TypeANY || q.name == fqdn.Root {
		return nil // no candidate could answer
	}
	return paths
}
