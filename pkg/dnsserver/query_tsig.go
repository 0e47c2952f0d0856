// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Lengths of parts of a TSIG record's data, in octets (RFC 8945 section 4.2).
const (
	tsigTimeLen = 8 // the time and the fudge
	tsigTailLen = 6 // the original ID, the error and the length of other data
)

// parseTSIG reads a TSIG record: its owner name, its fixed part (type, class, TTL and length) and
// its data. This server has no keys. The reply to a signed query therefore has a TSIG record with
// the error BADKEY (RFC 8945 section 5.2.1) and without a signature (section 5.3.2), which
// parseTSIG stores in q.tsig. It returns false if the record is malformed.
func (q *query) parseTSIG(owner, fixed, data []byte) bool {
	algorithmLen := uncompressedNameLen(data)
	macAt := algorithmLen + tsigTimeLen + 2 // after the algorithm, the time, the fudge, and the length of the signature
	if uncompressedNameLen(owner) < 0 || algorithmLen < 0 || macAt > len(data) || binary.BigEndian.Uint16(fixed[2:]) != dns.ClassANY {
		return false
	}
	tailAt := macAt + int(binary.BigEndian.Uint16(data[macAt-2:])) // after the signature
	if tailAt+tsigTailLen > len(data) {
		return false
	}
	tail := data[tailAt:]
	if otherLen := int(binary.BigEndian.Uint16(tail[tsigTailLen-2:])); tsigTailLen+otherLen != len(tail) {
		return false
	}
	r := append([]byte(nil), owner...)
	r = binary.BigEndian.AppendUint16(r, dns.TypeTSIG)
	r = binary.BigEndian.AppendUint16(r, dns.ClassANY)
	r = binary.BigEndian.AppendUint32(r, 0)
	r = binary.BigEndian.AppendUint16(r, uint16(macAt+tsigTailLen))
	r = append(r, data[:macAt-2]...)         // the algorithm, the time and the fudge
	r = binary.BigEndian.AppendUint16(r, 0)  // no signature
	r = append(r, tail[:2]...)               // the original ID
	r = binary.BigEndian.AppendUint16(r, 17) // BADKEY
	q.tsig = binary.BigEndian.AppendUint16(r, 0)
	return true
}

// uncompressedNameLen returns the length of the name that b begins with, or -1 if the name is too
// long, cut off or compressed. A compressed name has no meaning in another message.
func uncompressedNameLen(b []byte) int {
	for n := 0; n < min(len(b), fqdn.MaxWire); n += 1 + int(b[n]) {
		switch {
		case b[n] == 0:
			return n + 1
		case b[n] > fqdn.MaxLabel:
			return -1
		}
	}
	return -1
}

// appendTSIG appends the TSIG record of the reply to a signed query, and increments ARCOUNT. TSIG
// is the last record of a message (RFC 8945 section 5.1). A record that does not fit is left out.
func (q *query) appendTSIG(b []byte) []byte {
	if len(b)+len(q.tsig) > q.maxReply {
		return b
	}
	binary.BigEndian.PutUint16(b[10:], binary.BigEndian.Uint16(b[10:])+1)
	return append(b, q.tsig...)
}
