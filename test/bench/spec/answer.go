// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/test/bench/ask"
	"github.com/dnsconfigurer/dnsconfigurer/test/bench/upstream"
)

// Has reports whether name, in lower case, exists: in the cluster zone, or as a reverse
// name of the cluster.
func (z *Zone) Has(name string) bool { return z.exists[name] || z.podAddress(name) != nil }

// IsOurs reports whether the server is authoritative for name: the cluster zone, and the
// reverse names of the cluster's addresses. Other reverse names are forwarded, those above the
// names of addresses too: the cluster does not have their zones.
func (z *Zone) IsOurs(name string) bool {
	return dns.IsSubDomain(z.name, name) || dns.IsSubDomain("arpa.", name) && len(z.records[name]) > 0
}

// Records returns the records of a name, in lower case.
func (z *Zone) Records(name string, rrtype uint16) []dns.RR {
	var list []dns.RR
	for _, rr := range append(z.records[name], z.podAddress(name)...) {
		if rr.Header().Rrtype == rrtype {
			list = append(list, rr)
		}
	}
	return list
}

// maxAliases is the longest chain of aliases. A longer one, and a loop, is a failure.
const maxAliases = 10

// Answer returns the reply to q.
func (z *Zone) Answer(q ask.Question) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.Response = true
	if local := LocalZone(q.Lower()); local != "" && !z.IsOurs(q.Lower()) {
		m.Authoritative = true
		localAnswer(m, q.Lower(), local, q.Type)
		return z.withOwnerCase(m, q)
	}
	if !z.IsOurs(q.Lower()) {
		return upstream.Answer(q.Name, q.Type)
	}
	m.Authoritative = true // for the name in the question (RFC 1035 section 4.1.1)
	name, aliases := q.Lower(), 0
	for {
		if aliases > maxAliases {
			m.Rcode = dns.RcodeServerFailure
			break
		}
		if !z.IsOurs(name) {
			rest := upstream.Answer(name, q.Type)
			m.Rcode, m.Answer, m.Ns = rest.Rcode, append(m.Answer, rest.Answer...), rest.Ns
			break
		}
		alias := z.Records(name, dns.TypeCNAME)
		if len(alias) > 0 && q.Type != dns.TypeCNAME {
			m.Answer = append(m.Answer, alias...)
			name = alias[0].(*dns.CNAME).Target
			aliases++
			continue
		}
		z.end(m, name, q.Type)
		break
	}
	return z.withOwnerCase(m, q)
}

// end adds the answer for the last name of a chain of aliases.
func (z *Zone) end(m *dns.Msg, name string, qtype uint16) {
	records := z.Records(name, qtype)
	switch {
	case len(records) > 0:
		m.Answer = append(m.Answer, records...)
		m.Extra = z.glue(records)
	case !z.Has(name):
		m.Rcode = dns.RcodeNameError // also after an alias (RFC 6604)
		fallthrough
	default:
		soa := z.records[z.name][0]
		if !dns.IsSubDomain(z.name, name) {
			soa = &dns.SOA{Hdr: dns.RR_Header{Name: "arpa."}}
			soa.Header().Rrtype = dns.TypeSOA
		}
		m.Ns = []dns.RR{soa}
	}
}

// glue returns the addresses of the targets of SRV and NS records.
func (z *Zone) glue(records []dns.RR) []dns.RR {
	var list []dns.RR
	seen := map[string]bool{}
	for _, rr := range records {
		var target string
		switch rr := rr.(type) {
		case *dns.SRV:
			target = rr.Target
		case *dns.NS:
			target = rr.Ns
		}
		if target = dns.CanonicalName(target); target != "." && !seen[target] {
			seen[target] = true
			list = append(list, z.Records(target, dns.TypeA)...)
			list = append(list, z.Records(target, dns.TypeAAAA)...)
		}
	}
	return list
}

// withOwnerCase writes the owner names in the case of the question.
func (z *Zone) withOwnerCase(m *dns.Msg, q ask.Question) *dns.Msg {
	for i, rr := range m.Answer {
		if rr.Header().Name == q.Lower() {
			m.Answer[i] = dns.Copy(rr)
			m.Answer[i].Header().Name = q.Name
		}
	}
	return m
}

// podAddress returns the record of a pod's name in the mode insecure, in which pods need
// not exist: an address with dashes, IPv4 or IPv6, in a namespace that exists. A pod cannot
// have a loopback, link-local, multicast or unspecified address.
func (z *Zone) podAddress(name string) []dns.RR {
	label, rest, _ := strings.Cut(name, ".")
	if !z.AnswersAnyPod() || !z.exists[rest] || !strings.HasSuffix(rest, ".pod."+z.name) {
		return nil
	}
	header := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: TTL}
	if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ".")); err == nil && a.Is4() && a.IsGlobalUnicast() {
		header.Rrtype = dns.TypeA
		return []dns.RR{&dns.A{Hdr: header, A: net.IP(a.AsSlice())}}
	}
	if a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ":")); err == nil && a.Is6() && a.IsGlobalUnicast() {
		header.Rrtype = dns.TypeAAAA
		return []dns.RR{&dns.AAAA{Hdr: header, AAAA: net.IP(a.AsSlice())}}
	}
	return nil
}
