// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// parseTSIG reads the TSIG record at off. This server has no keys. The reply to a signed query
// therefore has a TSIG record with the error BADKEY (RFC 8945 section 5.2.1) and without a signature
// (section 5.3.2), which parseTSIG stores in q.tsig. It returns false if the record is malformed.
func (q *query) parseTSIG(packet []byte, off int) bool {
	rr, _, err := dns.UnpackRR(packet, off)
	signature, ok := rr.(*dns.TSIG)
	if err != nil || !ok || signature.Hdr.Class != dns.ClassANY {
		return false
	}
	// The library accepts data that is cut between two fields, or has a compressed name.
	if dns.Len(signature)-dns.Len(&signature.Hdr) != int(signature.Hdr.Rdlength) || len(signature.OtherData) != 2*int(signature.OtherLen) {
		return false
	}
	signature.Hdr.Ttl, signature.MACSize, signature.MAC, signature.OtherLen, signature.OtherData = 0, 0, "", 0, ""
	signature.Error = dns.RcodeBadKey
	b := make([]byte, dns.Len(signature))
	n, err := dns.PackRR(signature, b, 0, nil, false)
	q.tsig = b[:n]
	return err == nil
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
