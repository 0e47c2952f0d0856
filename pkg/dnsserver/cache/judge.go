// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"time"

	"github.com/miekg/dns"
)

// verdict says what a reply is to a cache.
type verdict int

const (
	useless verdict = iota
	answer
	denial
	failure
)

// FailureTTL is how long a SERVFAIL is kept. RFC 9520 section 3.2 wants at least a
// second and at most five minutes; pods retry after five seconds.
const FailureTTL = 5 * time.Second

// judge says what reply is to the question name, type and class, and its lifetime
// in seconds before any cap.
func judge(reply *dns.Msg, name string, qtype, class uint16) (verdict, uint32) {
	switch {
	case !reply.Response, reply.Truncated, reply.Opcode != dns.OpcodeQuery, !echoes(reply, name, qtype, class):
		return useless, 0
	case qtype == dns.TypeANY: // whatever was at hand, RFC 8482
		return useless, 0
	case reply.Rcode == dns.RcodeServerFailure:
		return failure, uint32(FailureTTL / time.Second)
	case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return useless, 0
	}
	ttl := smallestTTL(reply)
	end, found, ok := follow(reply.Answer, name, qtype, class)
	if !ok || found && reply.Rcode == dns.RcodeNameError {
		return useless, 0
	}
	if found {
		return answer, ttl
	}
	soa := authority(reply.Ns, end, class)
	if soa == nil {
		return useless, 0
	}
	return denial, min(ttl, rfc2181TTL(soa.Minttl))
}

// echoes tells whether reply is to this question.
func echoes(reply *dns.Msg, name string, qtype, class uint16) bool {
	if len(reply.Question) != 1 {
		return false
	}
	q := reply.Question[0]
	return q.Qtype == qtype && q.Qclass == class && strings.EqualFold(q.Name, name)
}

// maxChain is how many CNAMEs an answer may go through. Resolvers give up at about as
// many, and looking for the end of a longer one costs the square of its length.
const maxChain = 16

// follow goes along the CNAMEs of records from name to their end, and tells whether
// there are records of the type. ok is false when the chain is too long, or a circle.
func follow(records []dns.RR, name string, qtype, class uint16) (end string, found, ok bool) {
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

// authority returns the SOA that vouches for the absence of name (RFC 2308
// sections 2 and 5). One of a zone that the name is not in vouches for nothing.
func authority(records []dns.RR, name string, class uint16) *dns.SOA {
	for _, r := range records {
		if soa, ok := r.(*dns.SOA); ok && soa.Hdr.Class == class && dns.IsSubDomain(soa.Hdr.Name, name) {
			return soa
		}
	}
	return nil
}

// smallestTTL looks at all sections: no record of a reply is given out when it is
// past its time.
func smallestTTL(reply *dns.Msg) uint32 {
	smallest := uint32(maxTTL)
	for _, section := range [][]dns.RR{reply.Answer, reply.Ns, reply.Extra} {
		for _, r := range section {
			if !ofTransport(r) {
				smallest = min(smallest, rfc2181TTL(r.Header().Ttl))
			}
		}
	}
	return smallest
}

const maxTTL = 1<<31 - 1

// rfc2181TTL reads a TTL with the highest bit set as zero (RFC 2181 section 8).
func rfc2181TTL(ttl uint32) uint32 {
	if ttl > maxTTL {
		return 0
	}
	return ttl
}

// ofTransport tells whether r belongs to the exchange rather than to the answer.
func ofTransport(r dns.RR) bool {
	t := r.Header().Rrtype
	return t == dns.TypeOPT || t == dns.TypeTSIG || t == dns.TypeSIG && r.Header().Name == "."
}
