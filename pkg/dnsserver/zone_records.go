// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The times of SOA records, in seconds (RFC 1035 section 3.3.13). Nothing uses them, because
// zone transfers are refused.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// maxAliases is the longest chain of CNAMEs in an answer.
const maxAliases = 10

// anyTTL is the TTL of the answer to a query of type ANY, in seconds: an hour, because no client
// depends on that answer.
const anyTTL = 3600

// anyRecord returns the answer to a query of type ANY (RFC 8482 section 4.2).
func anyRecord(owner string) dns.RR {
	return &dns.HINFO{Hdr: header(owner, dns.TypeHINFO, anyTTL), Cpu: "RFC8482"}
}

// zoneRecords answers with records from one snapshot of the zone. It follows aliases, even to
// targets outside the zone. ok is false for names that are not in the zone.
func (s *Server) zoneRecords(ctx context.Context, q *query, snapshot *zone.Snapshot) (r result, ok bool) {
	a := answer{source: fromZone, authoritative: true}
	owner, name, aliases := q.presentationName(), q.name, q.aliases
	for {
		status, apex, node := s.lookupZone(snapshot, name)
		switch status {
		case zone.NotInZone:
			if len(a.answers) == 0 {
				return result{}, false
			}
			return s.forward(ctx, q.subquery(name, q.qtype)).then(a.withTarget), true
		case zone.Unknown:
			return result{answer: failure(fromZone, dns.ExtendedErrorCodeNotReady, "the cluster's names are not loaded yet")}, true
		case zone.NXDomain:
			a.rcode = dns.RcodeNameError
			a.authority = []dns.RR{s.soa(apex, snapshot)}
			return result{answer: a}, true
		}
		if node.Alias == "" || q.qtype == dns.TypeANY {
			records, additional := s.records(owner, name, q, node, snapshot)
			a.answers, a.additional = append(a.answers, records...), additional
			if len(records) == 0 {
				a.authority = []dns.RR{s.soa(apex, snapshot)}
			}
			return result{answer: a}, true
		}
		a.answers = append(a.answers, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME, s.cfg.TTL), Target: node.Alias.String()})
		aliases++
		switch {
		case q.qtype == dns.TypeCNAME:
			return result{answer: a}, true
		case aliases > maxAliases: // not NODATA: to glibc that is a valid answer, and final
			return result{answer: failure(fromZone, dns.ExtendedErrorCodeOther,
				"the ExternalName Services are a loop, or a chain of more than 10")}, true
		case s.hasRules(node.Alias):
			sub := q.subquery(node.Alias, q.qtype)
			sub.aliases = aliases
			return s.answerName(ctx, sub, nil).then(a.withTarget), true
		}
		name, owner = node.Alias, node.Alias.String()
	}
}

// withTarget adds the answer of another server for the target of the CNAME records in a.
func (a answer) withTarget(target answer) answer {
	target = target.withRecords()
	switch {
	case target.refused == refusedRecursion:
		return a // the client asks the servers of the target itself
	case target.refused != notRefused:
		return target
	}
	if target.rcode == dns.RcodeServerFailure || target.rcode == dns.RcodeRefused {
		return failure(target.source, dns.ExtendedErrorCodeNoReachableAuthority,
			"resolving the target of the ExternalName Service failed")
	}
	a.rcode, a.truncated = target.rcode, target.truncated // RFC 6604 section 3: the rcode is that of the last name
	a.answers = slices.Concat(a.answers, target.answers)  // a is shared by the fresh and the stale answer
	a.authority, a.extended = target.authority, target.extended
	return a
}

// records returns the records of the query's type that a name owns, and the address records of their targets.
func (s *Server) records(owner string, name fqdn.Name, q *query, n zone.Node, snapshot *zone.Snapshot) (records, additional []dns.RR) {
	limit := min(q.maxReply/minRecordLen, maxAddresses) + 1 // the rest does not fit, and building it takes milliseconds
	switch q.qtype {
	case dns.TypeA:
		return addressRecords(owner, nodeAddrs(&n, true, limit), s.cfg.TTL), nil
	case dns.TypeAAAA:
		return addressRecords(owner, nodeAddrs(&n, false, limit), s.cfg.TTL), nil
	case dns.TypeTXT:
		if n.Text != "" {
			return []dns.RR{&dns.TXT{Hdr: header(owner, dns.TypeTXT, zone.VersionTTL), Txt: []string{n.Text}}}, nil
		}
	case dns.TypePTR:
		for _, name := range n.PTR(limit) {
			records = append(records, &dns.PTR{Hdr: header(owner, dns.TypePTR, s.cfg.TTL), Ptr: name.String()})
		}
	case dns.TypeSRV:
		srv := q.subquery(name, q.qtype)
		srv.maxReply = min(2*q.maxReply, dns.MaxMsgSize) // so that a part of the records does not fit, and TC is set
		wire, _ := s.srvReply(srv, nil, n.SRV(srv.maxSRV()))
		a := answer{wire: wire}.withRecords()
		return withOwnerCase(a.answers, owner), a.additional
	case dns.TypeSOA:
		if n.Apex {
			soa := s.soa(name, snapshot)
			soa.Hdr.Name = owner
			return []dns.RR{soa}, nil
		}
	case dns.TypeNS:
		for _, server := range n.NS() {
			target := server.Name.String()
			records = append(records, &dns.NS{Hdr: header(owner, dns.TypeNS, s.cfg.TTL), Ns: target})
			additional = append(additional, addressRecords(target, slices.Concat(server.V4, server.V6), s.cfg.TTL)...)
		}
	case dns.TypeANY: // RFC 8482 section 4.2
		return []dns.RR{anyRecord(owner)}, nil
	}
	return records, additional
}

func addressRecords(owner string, addrs []netip.Addr, ttl uint32) []dns.RR {
	records := make([]dns.RR, 0, len(addrs))
	for _, addr := range addrs {
		if addr.Is4() {
			records = append(records, &dns.A{Hdr: header(owner, dns.TypeA, ttl), A: addr.AsSlice()})
		} else {
			records = append(records, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA, ttl), AAAA: addr.AsSlice()})
		}
	}
	return records
}

// nodeAddrs returns at most limit addresses of a zone.Node, beginning with a random one.
func nodeAddrs(n *zone.Node, is4 bool, limit int) []netip.Addr {
	switch {
	case n.Large:
		return rotate(n.Sample(nil, is4, limit), limit)
	case is4:
		return rotate(n.V4, limit)
	}
	return rotate(n.V6, limit)
}

// rotate returns at most limit of the addresses, beginning with a random one.
func rotate(addrs []netip.Addr, limit int) []netip.Addr {
	if len(addrs) < 2 {
		return addrs
	}
	first := rand.IntN(len(addrs))
	tail := addrs[first:min(first+limit, len(addrs))]
	return slices.Concat(tail, addrs[:min(first, limit-len(tail))])
}

// soa returns the SOA record of a zone that this server is authoritative for. Its minimum
// is the negative TTL (RFC 2308 section 4).
func (s *Server) soa(apex fqdn.Name, snapshot *zone.Snapshot) *dns.SOA {
	soa := &dns.SOA{
		Hdr:     header(apex.String(), dns.TypeSOA, s.cfg.TTL),
		Ns:      s.primary.String(),
		Mbox:    "hostmaster." + s.cfg.Domain.String(),
		Serial:  snapshot.Serial(),
		Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: s.negativeTTL(snapshot),
	}
	if slices.Contains(s.cfg.Zone.External(), apex) { // outside of the cluster its domain has no meaning
		soa.Ns, soa.Mbox = zone.ExternalPrimaryName(apex).String(), "hostmaster.dns."+soa.Hdr.Name
	}
	return soa
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// Limits of a replyCache.
const (
	// replyCacheTime is how long a reply is cached. Then it is built again, so that clients of
	// an RRset that does not fit into a reply do not always get the same part of it.
	replyCacheTime = time.Second

	// minCachedReply is the length of the shortest reply that is cached, in octets. Building a
	// shorter one costs less than the TCP connection of the query.
	minCachedReply = 4 << 10

	// maxReplyCache is the sum of the lengths of the cached replies, in octets: 64 replies of the largest length.
	maxReplyCache = 4 << 20
)

// replyCache caches the long replies over TCP with records of the zone, so that a client that
// repeats its query does not make the server build 64 kB again. A cached reply is not used after a
// change of its Service. The zero value is empty.
type replyCache struct {
	mu      sync.Mutex
	length  int // of all replies, in octets
	replies map[replyKey]cachedReply
}

type replyKey struct {
	name  fqdn.Name
	qtype uint16
	edns  bool // an OPT record leaves less room
}

type cachedReply struct {
	wire    []byte // without OPT record
	partial bool   // it has only a part of the RRset
	version uint64 // of the Service, see zone.Node.Version
	built   time.Time
}

// get returns the reply to q, or nil if none is cached. The records are rotated, except SRV records: their clients
// choose by weight (RFC 2782). partial reports whether some records are missing.
func (c *replyCache) get(q *query, version uint64) (b []byte, partial bool) {
	c.mu.Lock()
	cached, ok := c.replies[replyKey{q.name, q.qtype, q.edns}]
	c.mu.Unlock()
	if !ok || cached.version != version || q.received.Sub(cached.built) >= replyCacheTime {
		return nil, false
	}
	b = q.startReply(make([]byte, 0, len(cached.wire)+q.optLen(&answer{})), flagAA, dns.RcodeSuccess)
	copy(b[6:headerLen], cached.wire[6:]) // the counts
	records := cached.wire[len(b):]
	if q.qtype != dns.TypeSRV { // records of equal length
		n := int(binary.BigEndian.Uint16(b[6:]))
		first := rand.IntN(n) * (len(records) / n)
		b, records = append(b, records[first:]...), records[:first]
	}
	return append(b, records...), cached.partial
}

// put caches the reply to q if it is long and the cache has room. A zone.Node without a Service has
// the version 0. Its reply is not cached, because its changes could not be detected.
func (c *replyCache) put(q *query, version uint64, wire []byte, partial bool) {
	if version == 0 || len(wire) < minCachedReply {
		return
	}
	key := replyKey{fqdn.Name(strings.Clone(string(q.name))), q.qtype, q.edns}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length -= len(c.replies[key].wire)
	delete(c.replies, key)
	if c.length+len(wire) > maxReplyCache {
		maps.DeleteFunc(c.replies, func(_ replyKey, cached cachedReply) bool {
			expired := q.received.Sub(cached.built) >= replyCacheTime
			if expired {
				c.length -= len(cached.wire)
			}
			return expired
		})
	}
	if c.length+len(wire) > maxReplyCache {
		return
	}
	if c.replies == nil {
		c.replies = map[replyKey]cachedReply{}
	}
	c.length += len(wire)
	c.replies[key] = cachedReply{bytes.Clone(wire), partial, version, q.received}
}
