// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// headerLen is the length of a message's header (RFC 1035 section 4.1.1).
const headerLen = 12

// maxTTL caps the TTLs, in seconds: seven days, as RFC 8767 section 4 recommends. A TTL with
// the highest bit is positive, too.
const maxTTL = 7 * 24 * 60 * 60

// ErrMalformed is wrapped by the errors of Unpack.
var ErrMalformed = errors.New("malformed DNS message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Unpack parses a message. Unlike the library it requires all records that the header counts. With an error it
// returns the message as far as it is readable. Octets after the last record are ignored.
//
// The time is proportional to the length: a name has at most 255 octets, however it is compressed.
func Unpack(wire []byte) (*dns.Msg, error) {
	m := new(dns.Msg)
	if len(wire) < headerLen {
		return m, malformed("%d octets, shorter than a header", len(wire))
	}
	if err := m.Unpack(wire[:headerLen]); err != nil { // the library parses a header alone
		return m, malformed("header: %v", err)
	}
	at := headerLen
	for range binary.BigEndian.Uint16(wire[4:]) {
		q, next, err := unpackQuestion(wire, at)
		if err != nil {
			return m, err
		}
		m.Question, at = append(m.Question, q), next
	}
	err := unpackRecords(m, wire, at)
	if opt := m.IsEdns0(); opt != nil {
		m.Rcode |= opt.ExtendedRcode()
	}
	if m.Rcode == dns.RcodeFormatError { // its header may repeat the counts of the query, without the records
		m.Answer, m.Ns = nil, nil
		return m, nil
	}
	return m, err
}

func unpackQuestion(wire []byte, at int) (q dns.Question, next int, err error) {
	const fixed = 4 // type and class
	q.Name, at, err = dns.UnpackDomainName(wire, at)
	if err != nil || at+fixed > len(wire) {
		return q, 0, malformed("question: %v", cmp.Or(err, errCutOff))
	}
	q.Qtype, q.Qclass = binary.BigEndian.Uint16(wire[at:]), binary.BigEndian.Uint16(wire[at+2:])
	return q, at + fixed, nil
}

var errCutOff = errors.New("cut off at the end of the message")

// unpackRecords parses the records that the header counts.
func unpackRecords(m *dns.Msg, wire []byte, at int) error {
	for i, section := range []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra} {
		for range binary.BigEndian.Uint16(wire[6+2*i:]) {
			r, next, err := unpackRecord(wire, at)
			if err != nil {
				return err
			}
			*section, at = append(*section, r), next
		}
	}
	return nil
}

// unpackRecord parses the record at an offset and returns the offset of the next one.
func unpackRecord(wire []byte, at int) (r dns.RR, next int, err error) {
	const fixed = 10 // type, class, TTL, length
	name, at, err := dns.UnpackDomainName(wire, at)
	if err != nil || at+fixed > len(wire) {
		return nil, 0, malformed("record: %v", cmp.Or(err, errCutOff))
	}
	h := dns.RR_Header{
		Name: name, Rrtype: binary.BigEndian.Uint16(wire[at:]), Class: binary.BigEndian.Uint16(wire[at+2:]),
		Ttl: binary.BigEndian.Uint32(wire[at+4:]), Rdlength: binary.BigEndian.Uint16(wire[at+8:]),
	}
	if h.Rrtype != dns.TypeOPT { // which has flags there
		h.Ttl = min(h.Ttl, maxTTL)
	}
	at += fixed
	next = at + int(h.Rdlength)
	if next > len(wire) {
		return nil, 0, malformed("record of type %v: %v", dns.Type(h.Rrtype), errCutOff)
	}
	if l := layoutOf(h.Rrtype); l.names > 0 {
		r, err = unpackNames(h, l, wire[:next], at)
		return r, next, err
	}
	return unpackData(h, wire[at:next]), next, nil
}

// layout is the RDATA of a type that may have compressed names: octets, then character
// strings, then names, then octets.
type layout struct {
	prefix  int
	strings int
	names   int // 0: the type has no compressed names
	suffix  int // anyLength: not checked
}

const anyLength = -1

// layoutOf returns the layout of the types that a sender may compress (RFC 1035 section 3.3),
// and of those that a receiver should decompress (RFC 3597 section 4).
func layoutOf(rrtype uint16) layout {
	switch rrtype {
	case dns.TypeNS, dns.TypeMD, dns.TypeMF, dns.TypeCNAME, dns.TypeMB, dns.TypeMG, dns.TypeMR, dns.TypePTR:
		return layout{names: 1}
	case dns.TypeMINFO, dns.TypeRP:
		return layout{names: 2}
	case dns.TypeSOA:
		return layout{names: 2, suffix: 20}
	case dns.TypeMX, dns.TypeAFSDB, dns.TypeRT:
		return layout{prefix: 2, names: 1}
	case dns.TypePX:
		return layout{prefix: 2, names: 2}
	case dns.TypeSRV:
		return layout{prefix: 6, names: 1}
	case dns.TypeNAPTR:
		return layout{prefix: 4, strings: 3, names: 1}
	case dns.TypeSIG:
		return layout{prefix: 18, names: 1, suffix: anyLength}
	case dns.TypeNXT:
		return layout{names: 1, suffix: anyLength}
	}
	return layout{}
}

// fits reports whether the RDATA from an offset to the end of wire has the layout.
func (l layout) fits(wire []byte, at int) bool {
	at += l.prefix
	for range l.strings {
		if at >= len(wire) {
			return false
		}
		at += 1 + int(wire[at])
	}
	for range l.names {
		if at = SkipName(wire, at); at < 0 {
			return false
		}
	}
	return l.suffix == anyLength || at+l.suffix == len(wire)
}

// SkipName returns the offset after the name at an offset, or -1 if the name is cut off or has a label of another
// type (RFC 6891 section 5).
func SkipName(wire []byte, at int) int {
	for at < len(wire) {
		switch length := int(wire[at]); {
		case length == 0:
			return at + 1
		case length >= 0xC0: // a pointer ends a name (RFC 1035 section 4.1.4)
			if at+2 > len(wire) {
				return -1
			}
			return at + 2
		case length > fqdn.MaxLabel:
			return -1
		default:
			at += 1 + length
		}
	}
	return -1
}

// unpackNames parses the RDATA from an offset to the end of wire, with its names decompressed.
func unpackNames(h dns.RR_Header, l layout, wire []byte, at int) (dns.RR, error) {
	if !l.fits(wire, at) {
		return nil, malformed("record of type %v: incomplete data", dns.Type(h.Rrtype))
	}
	r, _, err := dns.UnpackRRWithHeader(h, wire, at)
	if err != nil {
		return nil, malformed("record of type %v: %v", dns.Type(h.Rrtype), err)
	}
	if _, opaque := r.(*dns.RFC3597); opaque {
		return nil, malformed("record of type %v: cannot decompress its names", dns.Type(h.Rrtype))
	}
	return r, nil
}

// unpackData parses RDATA without compressed names. Except for the records of a single hop,
// the result packs to the same octets.
func unpackData(h dns.RR_Header, data []byte) dns.RR {
	r, _, err := dns.UnpackRRWithHeader(h, data, 0)
	switch {
	case h.Rrtype == dns.TypeOPT, h.Rrtype == dns.TypeTSIG:
		if err != nil { // the library needs a record of these types; one without options will do
			h.Rdlength = 0
			r, _, _ = dns.UnpackRRWithHeader(h, nil, 0)
		}
		return r
	case err == nil && len(data) > 0 && packsTo(r, data):
		return r
	}
	return &dns.RFC3597{Hdr: h, Rdata: hex.EncodeToString(data)}
}

// packsTo reports whether r packs to the RDATA.
func packsTo(r dns.RR, data []byte) bool {
	h := r.Header()
	name := h.Name
	defer func() { h.Name = name }()
	h.Name = "." // one octet
	const fixed = 11
	buf := make([]byte, fixed+len(data))
	end, err := dns.PackRR(r, buf, 0, nil, false)
	return err == nil && end == len(buf) && bytes.Equal(buf[fixed:], data)
}
