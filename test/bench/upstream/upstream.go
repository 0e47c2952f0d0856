// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"hash/fnv"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// TTL is the TTL of all records.
const TTL = 60

// Answer returns the reply to a question. The first label of the name determines it:
// absent does not exist, empty has no records, broken fails, alias points to target. All
// other names below com and example have addresses and a text. No other domain exists,
// except the reverse names of 192.0.2.0/24.
func Answer(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	m.Response, m.RecursionAvailable = true, true
	lower := dns.CanonicalName(name)
	first, rest, _ := strings.Cut(lower, ".")
	switch {
	case first == "broken":
		m.Rcode = dns.RcodeServerFailure
		return m
	case dns.IsSubDomain("arpa.", lower):
		if qtype == dns.TypePTR && strings.HasSuffix(lower, ".2.0.192.in-addr.arpa.") {
			m.Answer = []dns.RR{&dns.PTR{Hdr: header(name, qtype), Ptr: "host-" + first + ".example."}}
			return m
		}
		return deny(m, dns.RcodeNameError, "arpa.")
	case first == "absent", last(lower) != "example." && last(lower) != "com.":
		return deny(m, dns.RcodeNameError, last(lower))
	case first == "empty":
		return deny(m, dns.RcodeSuccess, last(lower))
	case first == "alias" && rest != "":
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(name, dns.TypeCNAME), Target: "target." + rest})
		name = "target." + rest
	}
	m.Answer = append(m.Answer, records(name, qtype)...)
	if len(m.Answer) == 0 {
		return deny(m, dns.RcodeSuccess, last(lower))
	}
	return m
}

func records(name string, qtype uint16) []dns.RR {
	h := fnv.New32()
	_, _ = h.Write([]byte(dns.CanonicalName(name)))
	n := byte(h.Sum32())
	switch qtype {
	case dns.TypeA:
		return []dns.RR{&dns.A{Hdr: header(name, qtype), A: net.IPv4(203, 0, 113, n).To4()}}
	case dns.TypeAAAA:
		return []dns.RR{&dns.AAAA{Hdr: header(name, qtype), AAAA: net.ParseIP(fmt.Sprintf("2001:db8:f::%x", n))}}
	case dns.TypeTXT:
		return []dns.RR{&dns.TXT{Hdr: header(name, qtype), Txt: []string{"text"}}}
	default:
		return nil
	}
}

func last(name string) string {
	labels := dns.SplitDomainName(name)
	if len(labels) == 0 {
		return "."
	}
	return labels[len(labels)-1] + "."
}

func header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: TTL}
}

func deny(m *dns.Msg, rcode int, zone string) *dns.Msg {
	m.Rcode = rcode
	m.Ns = []dns.RR{&dns.SOA{
		Hdr: header(zone, dns.TypeSOA), Ns: "ns.example.", Mbox: "hostmaster.example.",
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: TTL,
	}}
	return m
}

// Reply returns the reply to a query, as a function for package dnstest.
func Reply(query *dns.Msg) *dns.Msg {
	m := Answer(query.Question[0].Name, query.Question[0].Qtype)
	m.Id, m.RecursionDesired = query.Id, query.RecursionDesired
	if opt := query.IsEdns0(); opt != nil {
		m.SetEdns0(dns.DefaultMsgSize, opt.Do())
	}
	return m
}
