// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"time"

	"github.com/miekg/dns"
)

// replyKind is what a reply means to the cache.
type replyKind uint8

const (
	uncacheable replyKind = iota
	answer
	denial
	failure
)

// FailureTTL is the TTL of a failure: an rcode other than NOERROR and NXDOMAIN. RFC 9520
// section 3.2 requires one second to five minutes; pods retry after five seconds.
const FailureTTL = 5 * time.Second

// classify returns the kind of a reply to the question name, type and class, and its TTL in
// seconds before any cap.
func classify(reply *dns.Msg, name string, qtype, class uint16) (replyKind, uint32) {
	switch {
	case reply.Truncated, qtype == dns.TypeANY: // any subset of the records, RFC 8482
		return uncacheable, 0
	case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return failure, uint32(FailureTTL / time.Second)
	}
	ttl := smallestTTL(reply)
	end, found, ok := followCNAMEs(reply.Answer, name, qtype, class)
	if !ok || found && reply.Rcode == dns.RcodeNameError {
		return uncacheable, 0
	}
	if found {
		return answer, ttl
	}
	if soa := findSOA(reply.Ns, end, class); soa != nil {
		return denial, min(ttl, soa.Minttl)
	}
	if reply.Rcode == dns.RcodeSuccess && len(reply.Answer)+len(reply.Ns) == 0 { // not a referral either
		return denial, min(ttl, noSOATTL)
	}
	return uncacheable, 0
}

// noSOATTL is the TTL of NODATA without SOA record, in seconds, as in unbound. RFC 2308 section 5
// advises against caching it, but then each query of each client for such a name is forwarded.
const noSOATTL = 5

// isReply reports whether a message is a reply to q, whose name as text is name.
func isReply(m *dns.Msg, name string, q Question) bool {
	if !m.Response || m.Opcode != dns.OpcodeQuery || len(m.Question) != 1 {
		return false
	}
	question := m.Question[0]
	return question.Qtype == q.Type && question.Qclass == q.Class && strings.EqualFold(question.Name, name)
}

// maxChain is the largest number of CNAMEs in an answer. Resolvers have similar limits, and the
// time to follow a chain grows with the square of its length.
const maxChain = 16

// followCNAMEs follows the CNAME records from name to the end of the chain, and reports
// whether there are records of the type. ok is false for a loop or a chain over maxChain.
func followCNAMEs(records []dns.RR, name string, qtype, class uint16) (end string, found, ok bool) {
	for range maxChain + 1 {
		next := ""
		for _, r := range records {
			h := r.Header()
			if h.Class != class || !strings.EqualFold(h.Name, name) {
				continue
			}
			if h.Rrtype == qtype {
				return name, true, true
			}
			if c, isAlias := r.(*dns.CNAME); isAlias {
				next = c.Target
			}
		}
		if next == "" {
			return name, false, true
		}
		name = next
	}
	return "", false, false
}

// findSOA returns the SOA record that a negative reply needs (RFC 2308 sections 2 and 5). An
// SOA of a zone that does not contain the name is ignored.
func findSOA(records []dns.RR, name string, class uint16) *dns.SOA {
	for _, r := range records {
		if soa, ok := r.(*dns.SOA); ok && soa.Hdr.Class == class && dns.IsSubDomain(soa.Hdr.Name, name) {
			return soa
		}
	}
	return nil
}

// smallestTTL returns the smallest TTL in all sections: no record may be used after its
// TTL.
func smallestTTL(reply *dns.Msg) uint32 {
	smallest := uint32(maxTTL)
	for _, section := range [][]dns.RR{reply.Answer, reply.Ns, reply.Extra} {
		for _, r := range section {
			if !isTransportRecord(r) {
				smallest = min(smallest, r.Header().Ttl)
			}
		}
	}
	return smallest
}

// maxTTL is the largest TTL (RFC 2181 section 8). A larger one is capped (RFC 8767 section 4).
const maxTTL = 1<<31 - 1

// isTransportRecord reports whether r is hop-by-hop.
func isTransportRecord(r dns.RR) bool {
	t := r.Header().Rrtype
	return t == dns.TypeOPT || t == dns.TypeTSIG || t == dns.TypeSIG && r.Header().Name == "."
}
