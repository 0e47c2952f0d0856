// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// muteTime is how long an Expander that has not expanded is not asked again.
const muteTime = 30 * time.Second

// expanded has the Expander look for a name along paths. The answer is to q, the name
// of autopath. ok is false where there is none, or it does not expand.
func (s *Server) expanded(ctx context.Context, q *query, name fqdn.Name, paths []fqdn.Name) (a answer, ok bool) {
	if s.cfg.Autopath.Expander == nil || time.Now().UnixNano() < s.mute.Load() {
		return answer{}, false
	}
	value, err := autopath.Encode(paths)
	if err != nil { // longer than the option: we walk
		return answer{}, false
	}
	bare := q.about(name, q.question().Qtype)
	question, ok := cache.QuestionOf(bare.msg, value)
	if !ok {
		return answer{}, false
	}
	from := s.forwarding.Load()
	a, ask := s.kept(ctx, bare, question, func(ctx context.Context) answer {
		m := bare.msg.Copy()
		m.SetEdns0(maxUDP, question.DO)
		opt := m.IsEdns0()
		opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: s.cfg.Autopath.Option, Data: value})
		a, ok := s.askFor(ctx, bare, m, question, from, s.cfg.Autopath.Expander, s.echoes)
		if !ok {
			s.mute.Store(time.Now().Add(muteTime).UnixNano())
			return answer{unexpanded: true}
		}
		return a
	})
	if ask != nil {
		a = ask(ctx)
	}
	return renamed(q, name, a), !a.unexpanded
}

// echoes tells whether the sender of a reply has expanded the search list: it repeats
// the option, empty. A failure says nothing about that.
func (s *Server) echoes(reply *dns.Msg) bool {
	if reply.Rcode == dns.RcodeServerFailure {
		return true
	}
	opt := reply.IsEdns0()
	return opt != nil && slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool {
		local, ok := o.(*dns.EDNS0_LOCAL)
		return ok && local.Code == s.cfg.Autopath.Option && len(local.Data) == 0
	})
}

// renamed is the answer about name as one to q: an alias leads from the name asked for
// to what was found.
func renamed(q *query, name fqdn.Name, a answer) answer {
	a.source, a.authoritative, a.authentic = fromWalk, false, false
	if len(a.answer) == 0 {
		return a
	}
	owner := q.question().Name
	first := a.answer[0]
	if cname, ok := first.(*dns.CNAME); ok {
		if from, err := fqdn.ParseName(cname.Hdr.Name); err == nil && from == name {
			alias := *cname
			alias.Hdr.Name = owner
			a.answer = append([]dns.RR{&alias}, a.answer[1:]...)
			return a
		}
	}
	alias := &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, first.Header().Ttl), Target: name.String()}
	a.answer = append([]dns.RR{alias}, a.answer...)
	return a
}
