// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// probe is a requirement of messages: queries that are sent together on one socket, and a check of their replies,
// which are never nil.
type probe struct {
	rule
	network string // "": udp
	queries []*dns.Msg
	check   func(replies []*dns.Msg) string // what is wrong
}

// probes returns the probes of a cluster. Those that need an object which the cluster lacks are left out.
func (c Cluster) probes(questions []*question) []probe {
	zone := dns.CanonicalName(c.Domain)
	list := append(messageProbes(zone), socketProbes(zone)...)
	isOther := func(q *question) bool { return q.rule != "headless-address" }
	if headless := slices.DeleteFunc(slices.Clone(questions), isOther); len(headless) > 0 {
		large := slices.MaxFunc(headless, func(a, b *question) int { return cmp.Compare(len(a.want), len(b.want)) })
		if len(large.want) > 512/16 { // A records without their name, which do not fit into 512 bytes
			list = append(list, sizeProbes(large)...)
		}
	}
	if i := slices.IndexFunc(questions, func(q *question) bool { return q.rule == "external-name" }); i >= 0 {
		list = append(list, aliasProbe(questions[i]))
	}
	return list
}

func aliasProbe(alias *question) probe {
	hasAddress := func(m *dns.Msg) bool {
		return slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeA })
	}
	return probe{
		rule: rule{"alias-address", Must, "glibc and musl do not follow aliases",
			"the reply for an ExternalName has the addresses of its target"},
		queries: []*dns.Msg{new(dns.Msg).SetQuestion(alias.name, dns.TypeA), new(dns.Msg).SetQuestion(alias.want[0], dns.TypeA)},
		check: func(replies []*dns.Msg) string {
			if hasAddress(replies[1]) && !hasAddress(replies[0]) {
				return fmt.Sprintf("%s A: no address, but %s has one", alias.name, alias.want[0])
			}
			return ""
		},
	}
}

// query returns a query for the SOA record of zone after edit.
func query(zone string, edit func(*dns.Msg)) []*dns.Msg {
	m := new(dns.Msg).SetQuestion(zone, dns.TypeSOA)
	edit(m)
	return []*dns.Msg{m}
}

// edns returns an edit that adds an OPT record, after edit has changed it.
func edns(edit func(*dns.OPT)) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		edit(m.IsEdns0())
	}
}

const (
	unknownVersion = 100
	unknownOption  = 100
	unknownFlag    = 0x40
	unknownOpcode  = 15
)

// messageProbes are those of RFC 8906 section 8, with the SOA record of the zone.
func messageProbes(zone string) []probe {
	flag := func(o *dns.OPT) { o.Hdr.Ttl |= unknownFlag }
	option := func(o *dns.OPT) { o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: unknownOption}) }
	version := func(edit func(*dns.OPT)) []*dns.Msg {
		return query(zone, edns(func(o *dns.OPT) { o.SetVersion(unknownVersion); edit(o) }))
	}
	return []probe{
		{rule: rule{"soa", Must, "RFC 8906 8.1.1", "the zone has an SOA record"}, queries: query(zone, func(*dns.Msg) {}), check: isSOA},
		{rule: rule{"unknown-type", Must, "RFC 8906 8.1.2", "a query for an unknown type gets NOERROR without records"},
			queries: query(zone, func(m *dns.Msg) { m.Question[0].Qtype = 1000 }), check: isNoData},
		{rule: rule{"flag-cd", Must, "RFC 8906 8.1.3", "a query with the flag CD is answered"},
			queries: query(zone, func(m *dns.Msg) { m.CheckingDisabled = true }), check: isSOA},
		{rule: rule{"flag-ad", Must, "RFC 8906 8.1.3", "a query with the flag AD is answered"},
			queries: query(zone, func(m *dns.Msg) { m.AuthenticatedData = true }), check: isSOA},
		{rule: rule{"flag-reserved", Must, "RFC 8906 8.1.3", "a query with the reserved flag is answered without it"},
			queries: query(zone, func(m *dns.Msg) { m.Zero = true }), check: isSOA},
		{rule: rule{"unknown-opcode", Must, "RFC 8906 8.1.4", "an unknown opcode gets NOTIMP"},
			queries: query(zone, func(m *dns.Msg) { m.Opcode = unknownOpcode }), check: hasRcode(dns.RcodeNotImplemented)},
		{rule: rule{"tcp", Must, "RFC 8906 8.1.5", "a query over TCP is answered"}, network: "tcp",
			queries: query(zone, func(*dns.Msg) {}), check: isSOA},
		{rule: rule{"edns", Must, "RFC 8906 8.2.1", "a query with EDNS gets an OPT record of version 0"},
			queries: query(zone, edns(func(*dns.OPT) {})), check: all(isSOA, hasOPT)},
		{rule: rule{"edns-version", Must, "RFC 8906 8.2.2", "an unknown version of EDNS gets BADVERS"},
			queries: version(func(*dns.OPT) {}), check: all(hasRcode(dns.RcodeBadVers), hasOPT)},
		{rule: rule{"edns-option", Must, "RFC 8906 8.2.3", "an unknown option is ignored"},
			queries: query(zone, edns(option)), check: all(isSOA, hasOPT)},
		{rule: rule{"edns-flag", Must, "RFC 8906 8.2.4", "an unknown flag of EDNS is ignored and cleared"},
			queries: query(zone, edns(flag)), check: all(isSOA, hasOPT)},
		{rule: rule{"edns-version-flag", Must, "RFC 8906 8.2.5", "an unknown version with an unknown flag gets BADVERS"},
			queries: version(flag), check: all(hasRcode(dns.RcodeBadVers), hasOPT)},
		{rule: rule{"edns-version-option", Must, "RFC 8906 8.2.6", "an unknown version with an unknown option gets BADVERS"},
			queries: version(option), check: all(hasRcode(dns.RcodeBadVers), hasOPT)},
		{rule: rule{"dnssec", Must, "RFC 8906 8.2.8", "a query with the flag DO is answered"},
			queries: query(zone, edns(func(o *dns.OPT) { o.SetDo() })), check: all(isSOA, hasOPT)},
		{rule: rule{"edns-version-dnssec", Must, "RFC 8906 8.2.9", "an unknown version with the flag DO gets BADVERS"},
			queries: version(func(o *dns.OPT) { o.SetDo() }), check: all(hasRcode(dns.RcodeBadVers), hasOPT)},
		{rule: rule{"edns-options", Must, "RFC 8906 8.2.10", "several options at the same time are accepted"},
			queries: query(zone, edns(func(o *dns.OPT) {
				o.Option = append(o.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
					&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
					&dns.EDNS0_EXPIRE{Code: dns.EDNS0EXPIRE, Empty: true})
			})), check: all(isSOA, hasOPT)},
	}
}

// socketProbes are what C libraries expect of the queries that they send together.
func socketProbes(zone string) []probe {
	mixed := strings.ToUpper(zone[:1]) + zone[1:]
	pair := func() []*dns.Msg {
		a, aaaa := new(dns.Msg).SetQuestion("svc."+zone, dns.TypeA), new(dns.Msg).SetQuestion("svc."+zone, dns.TypeAAAA)
		return []*dns.Msg{a, aaaa}
	}
	return []probe{
		{rule: rule{"both-families", Must, "glibc and musl getaddrinfo", "A and AAAA queries of one socket are both answered"},
			queries: pair(), check: isNoData},
		{rule: rule{"tcp-pipeline", Must, "RFC 7766 6.2.1, glibc getaddrinfo", "A and AAAA queries of a TCP connection are both answered"},
			network: "tcp", queries: pair(), check: isNoData},
		{rule: rule{"letter-case", Should, "RFC 1034 3.1, RFC 4343 4.1", "the question of a reply has the letters of the query"},
			queries: query(mixed, func(*dns.Msg) {}), check: all(isSOA, func(replies []*dns.Msg) string {
				if got := replies[0].Question; len(got) != 1 || got[0].Name != mixed {
					return fmt.Sprintf("the question of the reply is not %s", mixed)
				}
				return ""
			})},
		{rule: rule{"no-edns", Must, "RFC 6891 7", "a query without EDNS gets no OPT record"},
			queries: query(zone, func(*dns.Msg) {}), check: func(replies []*dns.Msg) string {
				if replies[0].IsEdns0() != nil {
					return "the reply has an OPT record"
				}
				return ""
			}},
	}
}

// sizeProbes query for a name whose addresses do not fit into 512 bytes.
func sizeProbes(large *question) []probe {
	ask := func(edit func(*dns.Msg)) []*dns.Msg {
		return query(large.name, func(m *dns.Msg) { m.Question[0].Qtype = large.qtype; edit(m) })
	}
	return []probe{
		{rule: rule{"truncation", Must, "RFC 1035 4.2.1", "a reply over UDP without EDNS has at most 512 bytes"},
			queries: ask(func(*dns.Msg) {}), check: func(replies []*dns.Msg) string {
				if !replies[0].Truncated { // exchange has checked the length
					return "the reply is not truncated"
				}
				return ""
			}},
		{rule: rule{"truncation-edns", Must, "RFC 8906 8.2.7", "a truncated reply has the OPT record"},
			queries: ask(func(m *dns.Msg) { m.SetEdns0(dns.MinMsgSize, true) }), check: hasOPT},
		{rule: rule{"truncation-addresses", Should, "musl before 1.2.4 does not use TCP", "a truncated reply has addresses"},
			queries: ask(func(*dns.Msg) {}), check: func(replies []*dns.Msg) string {
				if len(replies[0].Answer) == 0 {
					return "the truncated reply has no addresses"
				}
				return ""
			}},
		{rule: rule{"truncation-tcp", Must, "RFC 7766 5", "TCP has all addresses"}, network: "tcp",
			queries: ask(func(*dns.Msg) {}), check: func(replies []*dns.Msg) string { return large.check(replies[0]) }},
	}
}

// all returns a check that fails with the first of checks.
func all(checks ...func([]*dns.Msg) string) func([]*dns.Msg) string {
	return func(replies []*dns.Msg) string {
		for _, check := range checks {
			if why := check(replies); why != "" {
				return why
			}
		}
		return ""
	}
}

// wrongRcode describes a response code; one without a name, such as 12, by its number.
func wrongRcode(got, want int) string {
	return fmt.Sprintf("%s, want %s", cmp.Or(dns.RcodeToString[got], strconv.Itoa(got)), dns.RcodeToString[want])
}

func hasRcode(want int) func([]*dns.Msg) string {
	return func(replies []*dns.Msg) string {
		for _, m := range replies {
			if m.Rcode != want {
				return wrongRcode(m.Rcode, want)
			}
		}
		return ""
	}
}

// isSOA checks that a reply has the SOA record of the question, and no reserved flag.
func isSOA(replies []*dns.Msg) string {
	m := replies[0]
	switch {
	case m.Rcode != dns.RcodeSuccess:
		return hasRcode(dns.RcodeSuccess)(replies)
	case m.Zero:
		return "the reply has the reserved flag"
	case !slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeSOA }):
		return "the reply lacks the SOA record"
	}
	return ""
}

// isNoData checks that all replies are NOERROR without records.
func isNoData(replies []*dns.Msg) string {
	for _, m := range replies {
		if len(m.Answer) > 0 {
			return "the reply has records"
		}
	}
	return hasRcode(dns.RcodeSuccess)(replies)
}

func hasOPT(replies []*dns.Msg) string {
	opt := replies[0].IsEdns0()
	switch {
	case opt == nil:
		return "the reply lacks the OPT record"
	case opt.Version() != 0:
		return fmt.Sprintf("the OPT record has version %d", opt.Version())
	case opt.Hdr.Ttl&unknownFlag != 0:
		return "the OPT record has an unknown flag"
	case slices.ContainsFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() == unknownOption }):
		return "the OPT record has an unknown option"
	}
	return ""
}
