// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Lengths in octets.
const (
	pointerLen = 2
	fixedLen   = 10 // of a record: type, class, TTL and length of the data
	soaTimes   = 20 // serial, refresh, retry, expire and minimum
)

// pointer is a name that has been written at an offset before (RFC 1035 section 4.1.4).
func pointer(b []byte, to int) []byte { return binary.BigEndian.AppendUint16(b, 0xC000|uint16(to)) }

// begin writes the header, in which the counts are those of the query, and the
// question. Room is empty.
func (q *asked) begin(room []byte, rcode int) []byte {
	b := append(room, q.header...)
	b[2] = bitQR | bitAA | q.header[2]&bitRD
	b[3] = bitRA | q.header[3]&bitCD | byte(rcode)
	return append(b, q.question...)
}

// end writes the counts, and the OPT record for a client that sent one.
func (q *asked) end(b []byte, answers, authority int) []byte {
	binary.BigEndian.PutUint16(b[6:], uint16(answers))
	binary.BigEndian.PutUint16(b[8:], uint16(authority))
	binary.BigEndian.PutUint16(b[10:], 0)
	return q.appendOPT(b)
}

// appendOPT adds our OPT record behind the last one.
func (q *asked) appendOPT(b []byte) []byte {
	if !q.edns {
		return b
	}
	binary.BigEndian.PutUint16(b[10:], binary.BigEndian.Uint16(b[10:])+1)
	var do byte
	if q.do {
		do = bitDO
	}
	return append(b, 0, 0, byte(dns.TypeOPT), maxUDP>>8, maxUDP&0xFF, 0, 0, do, 0, 0, 0)
}

func appendFixed(b []byte, rrtype uint16, ttl uint32, length int) []byte {
	b = binary.BigEndian.AppendUint16(b, rrtype)
	b = binary.BigEndian.AppendUint16(b, dns.ClassINET)
	b = binary.BigEndian.AppendUint32(b, ttl)
	return binary.BigEndian.AppendUint16(b, uint16(length))
}

// addresses is the reply with addrs, from a random one on: most clients take the
// first. There is none if it would be too long.
func (k *quick) addresses(q *asked, room []byte, addrs []netip.Addr) []byte {
	length := addrs[0].BitLen() / 8
	if headerLen+len(q.question)+len(addrs)*(pointerLen+fixedLen+length) > q.size {
		return nil
	}
	b := q.begin(room, dns.RcodeSuccess)
	first := 0
	if len(addrs) > 1 {
		first = rand.IntN(len(addrs))
	}
	for i := range addrs {
		addr := addrs[(first+i)%len(addrs)]
		b = pointer(b, headerLen)
		b = appendFixed(b, q.qtype, k.server.cfg.TTL, length)
		octets := addr.As16()
		b = append(b, octets[16-length:]...)
	}
	return q.end(b, len(addrs), 0)
}

// denial is the reply without an answer, but with the SOA record of the zone that the
// name is in (RFC 2308 section 2). There is none if it would be too long.
func (k *quick) denial(q *asked, room []byte, rcode int, apex fqdn.Name, at *zone.Snapshot) []byte {
	const hostmaster = "\x0ahostmaster"
	domain := k.server.cfg.Domain
	if headerLen+len(q.question)+pointerLen+fixedLen+len(k.master)+len(hostmaster)+pointerLen+soaTimes > q.size {
		return nil
	}
	b := q.begin(room, rcode)
	apexAt := headerLen + len(q.name) - len(apex)
	b = pointer(b, apexAt)
	b = appendFixed(b, dns.TypeSOA, k.server.cfg.TTL, 0)
	data := len(b)
	domainAt := apexAt
	if apex == domain {
		b = append(b, k.master[:len(k.master)-len(domain)]...)
		b = pointer(b, domainAt)
	} else {
		b = append(b, k.master...)
		domainAt = len(b) - len(domain)
	}
	b = append(b, hostmaster...)
	b = pointer(b, domainAt)
	for _, n := range [...]uint32{at.Serial(), soaRefresh, soaRetry, soaExpire, k.server.denialTTL(at)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	binary.BigEndian.PutUint16(b[data-2:], uint16(len(b)-data))
	return q.end(b, 0, 1)
}
