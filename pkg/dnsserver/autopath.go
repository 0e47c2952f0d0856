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

// DefaultAutopathSuffix is that of KEP-2009.
const DefaultAutopathSuffix fqdn.Name = "\x02ap\x03k8s\x02io\x00"

// MaxHostSuffixes is what the cluster's three domains leave of a search list.
const MaxHostSuffixes = autopath.MaxPaths - 3

// Autopath is the expansion of search lists. The zero value is complete.
type Autopath struct {
	// Suffix is the domain below which names are expanded; "":
	// DefaultAutopathSuffix.
	Suffix fqdn.Name

	// HostSuffixes are the search domains of the hosts, which come after those of
	// the cluster for such a name. At most MaxHostSuffixes.
	HostSuffixes []fqdn.Name

	// Option is the code of the EDNS0 option SearchPaths; 0:
	// autopath.DefaultOption.
	Option uint16

	// Allowed are the networks from which the option is heeded: a search list
	// makes a query cost as much as many. nil: DefaultAllowed; empty: none.
	Allowed []netip.Prefix
}

// DefaultAllowed are the networks in which nodes and pods usually are: loopback,
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

// complete fills in the defaults, and returns the names that are expanded.
func (a *Autopath) complete(domain fqdn.Name) (autopath.Zone, error) {
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
		return autopath.Zone{}, fmt.Errorf("option %d: those for local use are %d to %d", a.Option, autopath.MinOption, autopath.MaxOption)
	}
	if n := len(a.HostSuffixes); n > MaxHostSuffixes {
		return autopath.Zone{}, fmt.Errorf("%d host suffixes, at most %d fit into a search list", n, MaxHostSuffixes)
	}
	if i := slices.Index(a.HostSuffixes, ""); i >= 0 {
		return autopath.Zone{}, fmt.Errorf("host suffix %d is no name", i+1)
	}
	return autopath.NewZone(a.Suffix, domain)
}

// How a query came by its search list, and why one was ignored, as labels.
const (
	byName   = "name"
	byOption = "option"

	ofStranger = "source"
	ofNoSense  = "malformed"
)

// expansion answers a query that has a search list, and names of autopath that have
// none; ok is false for all others.
func (s *Server) expansion(ctx context.Context, q *query) (a answer, ok bool) {
	place, asked := s.search.Parse(q.name)
	if place == autopath.Search && s.forwarding.Load().Expander != nil {
		return s.elsewhere(ctx, q), true
	}
	if place != autopath.NotInZone {
		return s.expandName(ctx, q, place, asked), true
	}
	if paths := s.searchPaths(q); paths != nil {
		return s.expandOption(ctx, q, paths), true
	}
	return answer{}, false
}

// expandName answers for a name below the autopath suffix, a zone of ours.
func (s *Server) expandName(ctx context.Context, q *query, place autopath.Kind, asked autopath.Request) answer {
	at := s.cfg.Zone.Snapshot()
	denial := s.denialTTL(at)
	a := answer{source: fromHere, authoritative: true}
	switch {
	case q.question().Qtype == dns.TypeANY:
		a.answer = []dns.RR{minimal(q.question().Name)} // without a walk
	case place == autopath.Search:
		paths := s.search.SearchPaths(asked.Namespace, s.cfg.Autopath.HostSuffixes)
		a, denial = s.walkedByName(ctx, q, s.search.Candidates(asked.Name, paths), at)
		a.authoritative = a.rcode != dns.RcodeServerFailure
	case place == autopath.Malformed:
		a.rcode = dns.RcodeNameError
	case q.name == s.search.Suffix:
		a.answer = s.autopathApex(q, at)
	}
	return s.vouched(a, denial, at)
}

// walkedByName is the answer to q, a name below the suffix, that a walk gives, and for how
// many seconds what it denies may be kept.
func (s *Server) walkedByName(ctx context.Context, q *query, candidates []fqdn.Name, at *zone.Snapshot) (answer, uint32) {
	r := s.walk(ctx, q, byName, candidates, at)
	a, denial := s.walked(q, r), s.denialTTL(at)
	if r.Outcome != autopath.Found {
		denial, a.authority = min(denial, r.TTL), nil
	}
	return a, denial
}

// vouched puts the SOA record of the suffix into a negative answer. It says that this
// holds for ttl seconds.
func (s *Server) vouched(a answer, ttl uint32, at *zone.Snapshot) answer {
	if len(a.answer) == 0 && a.rcode != dns.RcodeServerFailure {
		soa := s.soa(s.search.Suffix, at)
		soa.Hdr.Ttl, soa.Minttl = min(soa.Hdr.Ttl, ttl), ttl
		a.authority = []dns.RR{soa}
	}
	return a
}

// autopathApex is what the autopath suffix itself owns.
func (s *Server) autopathApex(q *query, at *zone.Snapshot) []dns.RR {
	switch owner := q.question().Name; q.question().Qtype {
	case dns.TypeSOA:
		soa := s.soa(s.search.Suffix, at)
		soa.Hdr.Name = owner
		return []dns.RR{soa}
	case dns.TypeNS:
		return []dns.RR{&dns.NS{Hdr: header(owner, dns.TypeNS, s.cfg.TTL), Ns: zone.PrimaryName(s.cfg.Domain).String()}}
	}
	return nil
}

// expandOption answers for a name that came with a search list. The reply says so, or
// the client would go along the list itself.
func (s *Server) expandOption(ctx context.Context, q *query, paths []fqdn.Name) answer {
	at := s.cfg.Zone.Snapshot()
	r := s.walk(ctx, q, byOption, s.search.Candidates(q.name, paths), at)
	a := s.walked(q, r)
	if a.pending {
		return a
	}
	a.echo = s.cfg.Autopath.Option
	if a.rcode != dns.RcodeServerFailure && len(a.answer)+len(a.authority) == 0 {
		a.authority = limited(s.denialOf(ctx, q, at), r.TTL)
	}
	return a
}

// denialOf is the SOA record of the zone in which the bare name is not, as the walk saw
// when it looked for no more than that.
func (s *Server) denialOf(ctx context.Context, q *query, at *zone.Snapshot) []dns.RR {
	bare := q.about(q.name, dns.TypeA)
	a, ok := s.clusterAt(ctx, bare, at)
	if !ok {
		a, _ = s.atHand(ctx, bare)
	}
	return a.authority
}

// searchPaths is the search list in a query's option; nil if there is none that
// counts. A list that cannot be read is as good as none: the client does not know what
// else we could say.
func (s *Server) searchPaths(q *query) []fqdn.Name {
	if q.opt == nil {
		return nil
	}
	var values [][]byte
	for _, o := range q.opt.Option {
		if local, ok := o.(*dns.EDNS0_LOCAL); ok && local.Code == s.cfg.Autopath.Option {
			values = append(values, local.Data)
		}
	}
	if len(values) == 0 {
		return nil
	}
	client := q.client.Unmap().WithZone("") // Contains wants both gone
	if !slices.ContainsFunc(s.cfg.Autopath.Allowed, func(p netip.Prefix) bool { return p.Contains(client) }) {
		q.count(s.metrics.autopath.ignored.WithLabelValues(ofStranger))
		return nil
	}
	paths, err := autopath.Decode(values[0])
	if err != nil || len(values) > 1 {
		q.count(s.metrics.autopath.ignored.WithLabelValues(ofNoSense))
		return nil
	}
	if q.question().Qtype == dns.TypeANY || q.name == fqdn.Root {
		return nil // nothing to walk for
	}
	return paths
}
