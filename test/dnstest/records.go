// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnstest

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Records returns a function that replies from the records in text, a zone file. A record
// *.PARENT is also one of each name directly below PARENT. Other names do not exist.
func Records(t testing.TB, text string) func(query *dns.Msg) *dns.Msg {
	t.Helper()
	var records []dns.RR
	p := dns.NewZoneParser(strings.NewReader(text), ".", "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		records = append(records, rr)
	}
	must.Succeed(t, p.Err())
	soa := must.Get(dns.NewRR(". 300 IN SOA ns.example. admin.example. 1 2 3 4 300"))(t)
	return func(q *dns.Msg) *dns.Msg { return replyFrom(records, soa, q) }
}

// replyFrom returns the records of the name, or those of the wildcard above it.
func replyFrom(records []dns.RR, soa dns.RR, q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.RecursionAvailable, m.Rcode = true, dns.RcodeNameError
	name := strings.ToLower(q.Question[0].Name)
	_, parent, _ := strings.Cut(name, ".")
	for _, owner := range []string{name, "*." + parent} {
		for _, rr := range records {
			if rr.Header().Name != owner {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if rr.Header().Rrtype == q.Question[0].Qtype {
				own := dns.Copy(rr)
				own.Header().Name = q.Question[0].Name
				m.Answer = append(m.Answer, own)
			}
		}
		if m.Rcode == dns.RcodeSuccess {
			break
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa}
	}
	return m
}
