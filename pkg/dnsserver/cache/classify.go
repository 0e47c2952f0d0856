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

// classify returns the kind of a reply to a question of a type, given its scrubbed records, and its TTL
// in seconds before any cap.
func classify(reply *dns.Msg, s *scrubbed, qtype uint16) (replyKind, uint32) {
	switch {
	case reply.Truncated, qtype == dns.TypeANY: // any subset of the records, RFC 8482
		return uncacheable, 0
	case s.loop, reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return failure, uint32(FailureTTL / time.Second)
	case s.found && reply.Rcode == dns.RcodeNameError:
		return uncacheable, 0
	case s.found:
		return answer, s.smallestTTL()
	case s.soa != nil:
		return denial, min(s.smallestTTL(), s.soa.Minttl)
	case reply.Rcode == dns.RcodeSuccess && len(s.answer)+len(reply.Ns) == 0: // not a referral either
		return denial, noSOATTL
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

// smallestTTL returns the smallest TTL in all sections: no record may be used after its TTL.
func (s *scrubbed) smallestTTL() uint32 {
	smallest := uint32(maxTTL)
	for _, section := range [][]dns.RR{s.answer, s.authority, s.additional} {
		for _, r := range section {
			smallest = min(smallest, r.Header().Ttl)
		}
	}
	return smallest
}

// maxTTL is the largest TTL (RFC 2181 section 8). A larger one is capped (RFC 8767 section 4).
const maxTTL = 1<<31 - 1
