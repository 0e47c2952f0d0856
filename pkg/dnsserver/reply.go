// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// answer is what a source says to a question. The zero answer is NOERROR without
// any record.
type answer struct {
	source        source
	rcode         int
	authoritative bool
	truncated     bool // there is more, which we could not get either
	authentic     bool // AD: somebody has validated it
	answer        []dns.RR
	authority     []dns.RR
	additional    []dns.RR

	echo     uint16         // the code of an option that the reply has, empty; 0: none
	extended *dns.EDNS0_EDE // why, for clients that know EDNS0 (RFC 8914)

	pending bool // it is none yet: others would have to be asked, and the query is atOnce
}

// maxReason is the longest reason that is given, in octets: beside the longest name it
// fits into what every client takes.
const maxReason = 200

// failure is SERVFAIL with the reason, which may come from elsewhere and be long.
func failure(from source, code uint16, reason string) answer {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return answer{source: from, rcode: dns.RcodeServerFailure, extended: &dns.EDNS0_EDE{InfoCode: code, ExtraText: reason}}
}

// replyTo returns the answer as others would have sent it.
func (a answer) replyTo(m *dns.Msg) *dns.Msg {
	r := new(dns.Msg).SetReply(m)
	r.Rcode, r.Truncated = a.rcode, a.truncated
	r.Answer, r.Ns, r.Extra = a.answer, a.authority, a.additional
	return r
}

// pack returns the reply in wire form, no longer than the client takes. Additional
// records are left out first, which the client may do without (RFC 2181 section 9);
// what else does not fit sets TC.
func (q *query) pack(a answer) []byte {
	m := &dns.Msg{Compress: true}
	m.SetReply(q.msg)
	m.CheckingDisabled = q.msg.CheckingDisabled
	m.RecursionAvailable = true
	m.Authoritative, m.Truncated = a.authoritative, a.truncated
	m.AuthenticatedData = a.authentic && (q.msg.AuthenticatedData || q.opt != nil && q.opt.Do())
	m.Rcode = a.rcode
	m.Answer, m.Ns = a.answer, a.authority
	extra := slices.Clone(a.additional)
	opt := q.ours(a)
	if opt != nil {
		extra = append(extra, opt)
	}
	m.Extra = extra

	size := q.size()
	if m.Len() > size {
		m.Extra = nil
		if opt != nil {
			m.Extra = []dns.RR{opt}
		}
		m.Truncate(size)
	}
	packed, err := m.Pack()
	if err != nil {
		// Only a record that is no record gets here; the client gets something.
		m.Answer, m.Ns, m.Rcode = nil, nil, dns.RcodeServerFailure
		packed, _ = m.Pack()
	}
	return packed
}

// ours is the OPT record of the reply, nil for a client that sent none.
func (q *query) ours(a answer) *dns.OPT {
	if q.opt == nil {
		return nil
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(maxUDP)
	if q.opt.Do() {
		opt.SetDo()
	}
	if a.echo != 0 {
		opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: a.echo})
	}
	if a.extended != nil {
		opt.Option = append(opt.Option, a.extended)
	}
	return opt
}
