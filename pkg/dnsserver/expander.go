// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// What became of a search list that was sent to the cluster DNS, as labels.
const (
	sentExpanded = "expanded"
	sentSilent   = "silent"
	sentFailed   = "failed"
)

// expand is the Exchange for names below the autopath suffix on a node. It sends the bare
// name to the cluster DNS with the search list as option, and returns what comes back as
// the reply to m. A reply without echo is about the bare name alone: then we go along the
// list ourselves, by what the cache has.
//
// The reply is kept under the whole name and the host's suffixes, which together are the
// list: nobody gets what was found along another one.
func (s *Server) expand(ctx context.Context, m *dns.Msg, name fqdn.Name, from *Forwarding) (*dns.Msg, error) {
	at := s.cfg.Zone.Snapshot()
	_, asked := s.search.Parse(name)
	paths := s.search.SearchPaths(asked.Namespace, from.HostSuffixes)
	candidates := s.search.Candidates(asked.Name, paths)
	if value, err := autopath.Encode(paths); err == nil { // else the host's suffixes are too long for the option
		reply, err := from.Expander(ctx, s.searching(m, asked.Name, value))
		switch {
		case err != nil:
			s.metrics.autopath.sent.WithLabelValues(sentFailed).Inc()
			return nil, fmt.Errorf("the cluster DNS: %w", err)
		case s.echoes(reply):
			s.metrics.autopath.sent.WithLabelValues(sentExpanded).Inc()
			a := restored(reply, m.Question[0], asked.Name, candidates)
			return s.vouched(a, min(denied(a), s.denialTTL(at)), at).replyTo(m), nil
		}
		s.metrics.autopath.sent.WithLabelValues(sentSilent).Inc()
	}
	q := &query{msg: m, opt: m.IsEdns0(), name: name, via: overUDP}
	a, ttl := s.walkedByName(ctx, q, candidates, at)
	return s.vouched(a, ttl, at).replyTo(m), nil
}

// searching returns the query for the bare name with the search list.
func (s *Server) searching(m *dns.Msg, bare fqdn.Name, list []byte) *dns.Msg {
	q := new(dns.Msg).SetQuestion(bare.String(), m.Question[0].Qtype)
	q.RecursionDesired, q.CheckingDisabled = m.RecursionDesired, m.CheckingDisabled
	q.SetEdns0(maxUDP, m.IsEdns0().Do())
	q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: s.cfg.Autopath.Option, Data: list}}
	return q
}

// echoes tells whether the server says that it has gone along the list.
func (s *Server) echoes(reply *dns.Msg) bool {
	opt := reply.IsEdns0()
	return opt != nil && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		local, ok := o.(*dns.EDNS0_LOCAL)
		return ok && local.Code == s.cfg.Autopath.Option && len(local.Data) == 0
	})
}

// restored is the answer to a question below the suffix that an expansion of the bare name
// gives. The records are shared with others.
func restored(reply *dns.Msg, question dns.Question, bare fqdn.Name, candidates []fqdn.Name) answer {
	a := copied(reply, fromUpstream)
	a.authentic = false // nobody has signed the way
	switch {
	case failed(a):
		return answer{source: fromUpstream, rcode: dns.RcodeServerFailure}
	case len(a.answer) == 0:
		return a
	}
	ttl := uint32(autopath.NoLimit)
	for _, rr := range a.answer {
		ttl = min(ttl, rr.Header().Ttl)
	}
	// An alias of the bare name is the way to the candidate found, or else a record that
	// the bare name owns, which then was found itself.
	found := bare
	if i := slices.IndexFunc(a.answer, isAliasOf(bare)); i >= 0 {
		target, err := fqdn.ParseName(a.answer[i].(*dns.CNAME).Target)
		if err == nil && slices.Contains(candidates, target) {
			found, a.answer = target, slices.Delete(slices.Clone(a.answer), i, i+1)
		}
	}
	way := &dns.CNAME{Hdr: header(question.Name, dns.TypeCNAME, ttl), Target: found.String()}
	if question.Qtype == dns.TypeCNAME {
		a.answer = nil
	}
	a.answer = append([]dns.RR{way}, a.answer...)
	return a
}

func isAliasOf(name fqdn.Name) func(dns.RR) bool {
	owner := name.String()
	return func(rr dns.RR) bool {
		_, ok := rr.(*dns.CNAME)
		return ok && strings.EqualFold(rr.Header().Name, owner)
	}
}
