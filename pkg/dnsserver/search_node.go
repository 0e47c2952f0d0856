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

// The results of sending a search list to the cluster DNS server: values of the metric label
// "result".
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
	snapshot := s.cfg.Zone.Snapshot()
	_, request := s.autopath.Parse(q.name)
	paths := s.autopath.SearchPaths(request.Namespace, to.forwarding.HostSuffixes)
	candidates := s.autopath.Candidates(request.Name, paths)
	if value, err := autopath.Encode(paths); err == nil { // else the host suffixes are too long for the option
		reply, err := to.exchange(ctx, s.withSearchPaths(m, request.Name, value))
		switch {
		case err != nil:
			s.metrics.autopath.sent.WithLabelValues(sentFailed).Inc()
			return nil, fmt.Errorf("cluster DNS: %w", err)
		case s.echoes(reply):
			s.metrics.autopath.sent.WithLabelValues(sentExpanded).Inc()
			a := fromExpansion(reply, m.Question[0], request.Name, candidates)
			return s.withSOA(a, min(a.negativeTTL(), s.negativeTTL(snapshot)), snapshot).replyTo(m), nil
		}
		s.recordIgnored(reply)
	}
	sub := q.subquery(q.name, q.qtype)
	sub.question = q.question
	// Over UDP a truncated reply to a subquery does not fail. If q came over TCP, the caller of
	// askExpander turns a truncated result into a failure.
	sub.via = overUDP
	a := s.walkName(ctx, sub, candidates, snapshot).await(ctx)
	if a.refused != notRefused {
		return nil, a.refused
	}
	return a.replyTo(m), nil
}

// recordIgnored counts a reply without the echo. It logs one that was not refused at a limit as a
// configuration error.
func (s *Server) recordIgnored(reply *dns.Msg) {
	if isLimitFailure(reply) {
		s.metrics.autopath.sent.WithLabelValues(sentRefused).Inc()
		return
	}
	s.metrics.autopath.sent.WithLabelValues(sentIgnored).Inc()
	if reply.Rcode == dns.RcodeServerFailure {
		return
	}
	s.logIgnoredOnce.Do(func() {
		s.log.Warn("cluster DNS ignored a search list, expanding it here: set autopathService or autopathNetworks of the cluster DNS")
	})
}

// withSearchPaths returns the query for the bare name with the search list as option.
func (s *Server) withSearchPaths(m *dns.Msg, bare fqdn.Name, list []byte) *dns.Msg {
	q := new(dns.Msg).SetQuestion(bare.String(), m.Question[0].Qtype)
	q.RecursionDesired, q.CheckingDisabled = m.RecursionDesired, m.CheckingDisabled
	q.SetEdns0(maxUDP, m.IsEdns0().Do())
	q.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: s.cfg.Autopath.Option, Data: list}}
	return q
}

// echoes reports whether the reply echoes the option: the server has expanded the search list.
func (s *Server) echoes(reply *dns.Msg) bool {
	opt := reply.IsEdns0()
	return opt != nil && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		local, ok := o.(*dns.EDNS0_LOCAL)
		return ok && local.Code == s.cfg.Autopath.Option && len(local.Data) == 0
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
	if i := slices.IndexFunc(a.answers, isAliasOf(bare)); i >= 0 {
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

func isAliasOf(name fqdn.Name) func(dns.RR) bool {
	owner := name.String()
	return func(rr dns.RR) bool {
		_, ok := rr.(*dns.CNAME)
		return ok && strings.EqualFold(rr.Header().Name, owner)
	}
}
