// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"
	"unsafe"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Sizes of messages, in octets.
const (
	// headerLen is the length of a message's header (RFC 1035 section 4.1.1).
	headerLen = 12

	// minUDP is the size of a UDP reply that every client accepts (RFC 1035 section 4.2.1).
	minUDP = 512

	// maxUDP is the longest UDP reply, and the size that the server advertises. It
	// fits into IPv6's minimum MTU, so that no reply is fragmented (RFC 9715).
	maxUDP = 1232

	// maxQuery is the longest query. A question with options is far shorter.
	maxQuery = 4096
)

// Lengths of parts of a message, in octets.
const (
	questionFixedLen = 4  // a question's type and class
	recordFixedLen   = 10 // a record's type, class, TTL and length of the data
	optFixedLen      = 1 + recordFixedLen
	optionHeaderLen  = 4 // an EDNS0 option's code and length
	infoCodeLen      = 2 // the code of an extended error (RFC 8914 section 2)
)

// Flags of the header (RFC 1035 section 4.1.1, RFC 4035 section 3).
const (
	flagQR     = 1 << 15
	maskOpcode = 15 << 11
	flagAA     = 1 << 10
	flagTC     = 1 << 9
	flagRD     = 1 << 8
	flagRA     = 1 << 7
	flagAD     = 1 << 5
	flagCD     = 1 << 4
	maskRcode  = 15
)

// flagDO is in the lower half of an OPT record's TTL (RFC 3225 section 3).
const flagDO = 1 << 15

type transport uint8

const (
	overUDP transport = iota
	overTCP
)

func (t transport) String() string { return [...]string{"udp", "tcp"}[t] }

// query is a parsed query. question and options refer to the packet until detach copies them.
type query struct {
	id       uint16
	flags    uint16
	question []byte    // in wire form, the name in the case of the client; nil: not parsed
	name     fqdn.Name // of the question, in lower case; after parse it refers to nameBuf
	qtype    uint16

	edns, do   bool
	version    byte   // of EDNS
	options    []byte // of EDNS, each with code and length
	tsig       []byte // the TSIG record of the reply; nil: the query is not signed
	maxReply   int    // the length of the longest reply that the client accepts, in octets
	rejectCode int    // the rcode of the reply if no source is tried; NOERROR: the sources are tried

	aliases   int  // CNAME records from the name of the client to this one
	rewritten bool // name is that of a rewrite
	allowed   bool // no ACL rule denies the query

	via      transport
	client   netip.Addr // the zero Addr: unknown
	port     uint16     // of the client
	size     int        // of the packet, in octets
	received time.Time

	nameBuf [fqdn.MaxWire]byte
}

// parse parses a packet into q. It does not change via, client, port and received. It reports whether the packet is a
// query. parse sets the valid parts of a rejected query, too, so that the reply has its question and OPT record.
func (q *query) parse(packet []byte) (isQuery bool) {
	q.question, q.name, q.qtype, q.options, q.tsig, q.edns, q.do = nil, "", 0, nil, nil, false, false
	q.maxReply, q.rejectCode, q.size = minUDP, dns.RcodeSuccess, len(packet)
	if q.via == overTCP {
		q.maxReply = dns.MaxMsgSize
	}
	// Replies are not answered: two servers could do so forever.
	if len(packet) < headerLen || packet[2]&(flagQR>>8) != 0 {
		return false
	}
	q.id, q.flags = binary.BigEndian.Uint16(packet), binary.BigEndian.Uint16(packet[2:])
	// One question (RFC 9619), no answer and authority records, and at most an OPT record and a signature.
	questions, answers := binary.BigEndian.Uint16(packet[4:]), binary.BigEndian.Uint16(packet[6:])
	authority, additional := binary.BigEndian.Uint16(packet[8:]), int(binary.BigEndian.Uint16(packet[10:]))
	wellFormed := questions == 1 && answers == 0 && authority == 0 && additional <= 2
	if questions == 1 {
		rest, ok := q.parseQuestion(packet[headerLen:])
		wellFormed = wellFormed && ok && q.parseAdditional(packet, rest, additional)
	}
	switch {
	case q.flags&maskOpcode != dns.OpcodeQuery<<11:
		q.rejectCode = dns.RcodeNotImplemented
	case !wellFormed:
		q.rejectCode = dns.RcodeFormatError
	case q.tsig != nil: // no key is known (RFC 8945 section 5.2.1)
		q.rejectCode = dns.RcodeNotAuth
	case q.edns && q.version != 0: // RFC 6891 section 6.1.3
		q.rejectCode = dns.RcodeBadVers
	case q.class() != dns.ClassINET: // see answerRejected
		q.rejectCode = dns.RcodeRefused
	case q.qtype == dns.TypeOPT:
		q.rejectCode = dns.RcodeFormatError
	case q.qtype >= 128 && q.qtype < dns.TypeANY: // transfers and other meta types (RFC 6895 section 3.1)
		q.rejectCode = dns.RcodeRefused
	}
	return true
}

// parseQuestion reads the question and returns what follows it.
func (q *query) parseQuestion(section []byte) (rest []byte, ok bool) {
	n := 0
	for {
		if n >= len(section) {
			return nil, false
		}
		length := int(section[n])
		end := n + 1 + length
		// The first name of a message cannot be compressed: a pointer refers to an earlier name.
		if length > fqdn.MaxLabel || end > len(section) || end > len(q.nameBuf) {
			return nil, false
		}
		label := q.nameBuf[n:end]
		for i, c := range section[n:end] { // the length octet is at most 63, less than 'A'
			if 'A' <= c && c <= 'Z' {
				c |= 0x20
			}
			label[i] = c
		}
		if n = end; length == 0 {
			break
		}
	}
	if n+questionFixedLen > len(section) {
		return nil, false
	}
	// q.name shares the memory of nameBuf. A string must not change, and this one does not: only
	// parse writes to nameBuf, and it replaces q.name as well.
	q.name = fqdn.Name(unsafe.String(&q.nameBuf[0], n))
	q.qtype = binary.BigEndian.Uint16(section[n:])
	q.question = section[:n+questionFixedLen]
	return section[n+questionFixedLen:], true
}

// parseAdditional reads the count records of section, the end of packet. It ignores all types except OPT and TSIG.
func (q *query) parseAdditional(packet, section []byte, count int) bool {
	for i := range count {
		n := upstream.SkipName(section, 0)
		if n < 0 || n+recordFixedLen > len(section) {
			return false
		}
		owner, fixed := section[:n], section[n:n+recordFixedLen]
		end := n + recordFixedLen + int(binary.BigEndian.Uint16(fixed[8:]))
		if end > len(section) {
			return false
		}
		ok, data := true, section[n+recordFixedLen:end]
		switch binary.BigEndian.Uint16(fixed) {
		case dns.TypeOPT: // its owner is the root, and there is at most one (RFC 6891 section 6.1)
			ok = len(owner) == 1 && !q.edns && q.parseOPT(fixed, data)
		case dns.TypeTSIG: // the last record (RFC 8945 section 5.1)
			ok = i == count-1 && q.parseTSIG(packet, len(packet)-len(section))
		}
		if !ok {
			return false
		}
		section = section[end:]
	}
	return true
}

// parseOPT reads an OPT record: its fixed part (type, class, TTL and length) and its options.
func (q *query) parseOPT(fixed, options []byte) bool {
	q.edns, q.version, q.options = true, fixed[5], options
	q.do = binary.BigEndian.Uint16(fixed[6:])&flagDO != 0
	if q.via == overUDP {
		q.maxReply = min(max(int(binary.BigEndian.Uint16(fixed[2:])), minUDP), maxUDP)
	}
	for len(options) > 0 {
		if len(options) < optionHeaderLen {
			return false
		}
		end := optionHeaderLen + int(binary.BigEndian.Uint16(options[2:]))
		if end > len(options) {
			return false
		}
		options = options[end:]
	}
	return true
}

// presentationName returns the question's name in presentation format, in the case of the client.
func (q *query) presentationName() string {
	name, _, err := dns.UnpackDomainName(q.question, 0)
	if err != nil {
		return q.name.String() // not reached: parse has checked the name
	}
	return name
}

// questionName returns the question's name in wire form, in the case of the client.
func (q *query) questionName() []byte { return q.question[:len(q.question)-questionFixedLen] }

// subquery returns the query for another name or type that has to be answered first.
func (q *query) subquery(name fqdn.Name, qtype uint16) *query {
	question := make([]byte, 0, len(name)+questionFixedLen)
	question = append(question, name...)
	question = binary.BigEndian.AppendUint16(question, qtype)
	question = binary.BigEndian.AppendUint16(question, dns.ClassINET)
	return &query{
		flags: q.flags, question: question, name: name, qtype: qtype,
		edns: q.edns, do: q.do, maxReply: q.maxReply, via: q.via, client: q.client, received: q.received, allowed: q.allowed,
	}
}

// detach copies what q refers to in the packet, so that q outlives it.
func (q *query) detach() {
	q.question, q.options = bytes.Clone(q.question), bytes.Clone(q.options)
}

// clone returns a copy that outlives q and the packet.
func (q *query) clone() *query {
	c := *q
	c.name = fqdn.Name(strings.Clone(string(q.name)))
	c.detach()
	return &c
}

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
