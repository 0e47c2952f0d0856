// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
)

// srvFixedLen is the length of an SRV record's priority, weight and port.
const srvFixedLen = 6

// srvReply returns the reply with the SRV records, rotated, and the addresses of their targets. If
// not all addresses fit, the reply has none. It returns nil if there is no SRV record. partial
// reports whether some SRV records do not fit.
func (s *Server) srvReply(q *query, buf []byte, set zone.SRVSet) (b []byte, partial bool) {
	first := 0
	if set.Targets() > 1 {
		first = rand.IntN(set.Targets())
	}
	b, limit := q.startReply(buf, flagAA, dns.RcodeSuccess), q.maxReply-q.optLen(&answer{})
	answersAt := len(b)
	b, complete := s.appendSRV(b, limit, set, first)
	switch {
	case !complete:
		return b, true
	case len(b) == answersAt:
		return nil, false
	}
	return s.appendTargets(b, answersAt, limit, set, first), false
}

// maxSRV returns more than the number of SRV records that fit into the reply. All targets end with
// the name of the Service, which is the end of q.name, so its length gives their least length.
func (q *query) maxSRV() int {
	service := q.name
	for len(service) > 1 && service[1] == '_' { // _port and _proto
		_, service = service.Cut()
	}
	const shortestLabel = 2
	return q.maxReply/(pointerLen+recordFixedLen+srvFixedLen+shortestLabel+len(service)) + 1
}

// appendSRV appends the SRV records and sets ANCOUNT. It reports whether all fit.
func (s *Server) appendSRV(b []byte, limit int, set zone.SRVSet, first int) (_ []byte, complete bool) {
	weight, count := set.Weight(), uint16(0)
	for t, port := range set.All(first) {
		previous := b // without this record
		b = appendRecord(b, headerLen, dns.TypeSRV, s.cfg.TTL, 0)
		data := len(b)
		b = binary.BigEndian.AppendUint16(b, 0) // the priority
		b = binary.BigEndian.AppendUint16(b, weight)
		b = binary.BigEndian.AppendUint16(b, port)
		b = t.AppendLabel(b)
		b = append(b, set.Service...) // not compressed (RFC 2782)
		if len(b) > limit {
			return previous, false
		}
		binary.BigEndian.PutUint16(b[data-2:], uint16(len(b)-data))
		count++
		binary.BigEndian.PutUint16(b[6:], count)
	}
	return b, true
}

// appendTargets appends the addresses of the targets of the SRV records in b, and sets ARCOUNT. The
// SRV records begin at the offset answersAt. If not all addresses fit, it returns b without
// addresses. It reads the length of each SRV record from b, to compute the offsets of the names of
// its target and Service.
func (s *Server) appendTargets(b []byte, answersAt, limit int, set zone.SRVSet, first int) []byte {
	withoutAddrs, count := b, 0
	end := answersAt // of the previous SRV record
	service := 0     // offset of the name of the Service in the first SRV record
	var last *zone.Target
	for t := range set.All(first) {
		data := end + pointerLen + recordFixedLen
		end = data + int(binary.BigEndian.Uint16(b[data-2:]))
		if service == 0 {
			service = end - len(set.Service)
		}
		if t == last {
			continue
		}
		last = t
		b = s.appendTargetAddrs(b, limit, t, data+srvFixedLen, service)
		if count += len(t.V4) + len(t.V6); len(b) > limit {
			return withoutAddrs
		}
	}
	binary.BigEndian.PutUint16(b[10:], uint16(count))
	return b
}

// appendTargetAddrs appends the addresses of a target until one does not fit. target and service
// are the offsets of the names of the target and of its Service in the message.
func (s *Server) appendTargetAddrs(b []byte, limit int, t *zone.Target, target, service int) []byte {
	for _, addrs := range [...][]netip.Addr{t.V4, t.V6} {
		for _, addr := range addrs {
			if len(b) > limit {
				return b
			}
			ownerAt := target
			if target >= pointerEnd {
				b, ownerAt = t.AppendLabel(b), service // the label, and a pointer to the rest of the name
			}
			b = appendAddress(b, ownerAt, addr, s.cfg.TTL)
		}
	}
	return b
}
