// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// result is an answer, or a function that waits for one from other servers.
type result struct {
	answer

	// wait is nil if the answer is complete. Otherwise it waits for other servers. The caller of wait must hold a
	// slot. Subqueries for an alias target use the same slot. Those of an expansion have their own.
	wait  func(context.Context) answer
	kind  queryKind
	stale func() answer // from the cache, if wait fails or takes too long; nil: there is none
}

// then applies f to the answer, now or when it is available.
func (r result) then(f func(answer) answer) result {
	if r.wait == nil {
		return result{answer: f(r.answer)}
	}
	next := result{kind: r.kind, wait: func(ctx context.Context) answer { return f(r.wait(ctx)) }}
	if r.stale != nil {
		next.stale = func() answer { return f(r.stale()) }
	}
	return next
}

// await returns the answer. It blocks if the answer depends on other servers.
func (r result) await(ctx context.Context) answer {
	if r.wait != nil {
		return r.wait(ctx)
	}
	return r.answer
}

// answer is the answer of a source, in wire form or as records. The zero answer is NOERROR without records.
type answer struct {
	source  source
	refused refusalReason // why the query was refused, if it was: the rcode then says nothing about the name
	rcode   int

	// wire is the reply to the query, without OPT record. If it is not nil, the fields
	// from hit to additional are unset.
	wire []byte

	// hit is the reply in the cache, which is copied when it is sent: thousands of queries may have waited for the
	// same reply of 64 kB. If it is not a miss, the fields from wire to additional are unset.
	hit cache.Hit

	authoritative bool
	dropped       bool // no reply is sent: an ACL rule drops the query
	truncated     bool // the upstream server's reply was truncated
	authentic     bool // AD: an upstream server has validated it
	answers       []dns.RR
	authority     []dns.RR
	additional    []dns.RR

	echo          uint16         // code of an EDNS0 option to echo with an empty value; 0: none
	extended      *dns.EDNS0_EDE // the reason, for clients with EDNS0 (RFC 8914); may be nil
	cachedFailure bool           // the failure comes from the cache: a second extended error says so
}

// maxReason is the longest reason in a reply, in octets. Together with the longest name it
// fits into the size that every client accepts.
const maxReason = 200

// failure returns SERVFAIL with the reason, which is cut to maxReason.
func failure(from source, code uint16, reason string) answer {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}
	return answer{source: from, rcode: dns.RcodeServerFailure, extended: &dns.EDNS0_EDE{InfoCode: code, ExtraText: reason}}
}

// withRecords returns the answer with records instead of the wire form.
func (a answer) withRecords() answer {
	if a.hit.State != cache.Miss {
		a.wire = a.hit.Append(nil, cache.ReplyOptions{AD: true})
	}
	if a.wire == nil {
		return a
	}
	m, err := upstream.Unpack(a.wire)
	if err != nil {
		return failure(a.source, dns.ExtendedErrorCodeOther, "a cached reply is malformed")
	}
	unpacked := answerOf(m, a.source)
	unpacked.authoritative, unpacked.echo = m.Authoritative, a.echo
	unpacked.extended, unpacked.cachedFailure = a.extended, a.cachedFailure
	return unpacked
}

// answerOf returns the answer in a reply of another server or of the cache: everything except OPT, TSIG and SIG
// records. OPT, TSIG and SIG(0) records apply to a single hop. Other SIG records are obsolete (RFC 3755).
func answerOf(m *dns.Msg, from source) answer {
	a := answer{source: from, rcode: m.Rcode, truncated: m.Truncated, authentic: m.AuthenticatedData, answers: m.Answer, authority: m.Ns}
	for _, r := range m.Extra {
		if t := r.Header().Rrtype; t != dns.TypeOPT && t != dns.TypeTSIG && t != dns.TypeSIG {
			a.additional = append(a.additional, r)
		}
	}
	return a
}

// withOwnerCase returns the records with the owner name in the case of the client's query
// (RFC 4343 section 4.1). The records are shared with queries in another case.
func withOwnerCase(records []dns.RR, name string) []dns.RR {
	differs := func(h *dns.RR_Header) bool { return h.Name != name && strings.EqualFold(h.Name, name) }
	return withHeaders(records, differs, func(h *dns.RR_Header) { h.Name = name })
}

// capTTL returns the records with no TTL above the limit.
func capTTL(records []dns.RR, ttl uint32) []dns.RR {
	exceeds := func(h *dns.RR_Header) bool { return h.Ttl > ttl }
	return withHeaders(records, exceeds, func(h *dns.RR_Header) { h.Ttl = ttl })
}

// withHeaders returns the records with those headers changed that have to be. The records may be shared: it
// copies what it changes.
func withHeaders(records []dns.RR, hasTo func(*dns.RR_Header) bool, change func(*dns.RR_Header)) []dns.RR {
	copied := false
	for i, rr := range records {
		if !hasTo(rr.Header()) {
			continue
		}
		if !copied {
			records, copied = slices.Clone(records), true
		}
		records[i] = dns.Copy(rr)
		change(records[i].Header())
	}
	return records
}

// replyTo returns the answer as the reply that another server would have sent to m.
func (a answer) replyTo(m *dns.Msg) *dns.Msg {
	a = a.withRecords()
	r := new(dns.Msg).SetReply(m)
	r.Rcode, r.Truncated = a.rcode, a.truncated
	r.Answer, r.Ns, r.Extra = a.answers, a.authority, a.additional
	return r
}

// maxHeldNegative is the largest length, in octets, of a negative answer that stays in memory as a
// whole while the server waits for other servers. An answer with SOA, NSEC3 and RRSIG records has
// about 1,000 octets. Without the limit each waiting query for a name in a hostile domain could
// hold a message of 64 kB: 4,000 records take 340 kB of memory (TestForward_HeldRecords).
const maxHeldNegative = 4 << 10

// trimNegative returns a negative answer unchanged if it is not longer than maxHeldNegative. Otherwise it returns the
// answer with the aliases and the SOA record only, which suffice unless the client validates.
func (a answer) trimNegative() answer {
	length := 0
	for _, section := range [][]dns.RR{a.answers, a.authority, a.additional} {
		for _, rr := range section {
			length += dns.Len(rr)
		}
	}
	if length <= maxHeldNegative {
		return a
	}
	a.answers = firstOfType(a.answers, dns.TypeCNAME, maxAliases)
	a.authority = firstOfType(a.authority, dns.TypeSOA, 1)
	a.additional = nil
	return a
}

// firstOfType returns a new slice with the first records of a type, at most limit.
func firstOfType(records []dns.RR, rrtype uint16, limit int) (first []dns.RR) {
	for _, rr := range records {
		if rr.Header().Rrtype == rrtype && len(first) < limit {
			first = append(first, rr)
		}
	}
	return first
}

// failed reports whether the rcode is an error other than NXDOMAIN, such as SERVFAIL or REFUSED.
func (a *answer) failed() bool {
	return a.rcode != dns.RcodeSuccess && a.rcode != dns.RcodeNameError
}

// negativeTTL returns how long a negative answer may be cached, in seconds (RFC 2308
// section 5). It is 0 without an SOA record.
func (a *answer) negativeTTL() uint32 {
	for _, rr := range a.authority {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(soa.Hdr.Ttl, soa.Minttl)
		}
	}
	return 0
}
