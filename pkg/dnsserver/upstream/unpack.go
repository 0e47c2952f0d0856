// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/miekg/dns"
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

// Unpack parses a message. Unlike the library it requires all records that the header counts.
// With an error it returns the message as far as it is readable. Octets after the last record
// are ignored.
//
// The time is proportional to the length: a name has at most 255 octets, however it is
// compressed.
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
		return q, 0, malformed("question: %v", orCutOff(err))
	}
	q.Qtype, q.Qclass = binary.BigEndian.Uint16(wire[at:]), binary.BigEndian.Uint16(wire[at+2:])
	return q, at + fixed, nil
}

var errCutOff = errors.New("cut off at the end of the message")

func orCutOff(err error) error {
	if err == nil {
		return errCutOff
	}
	return err
}

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
		return nil, 0, malformed("record: %v", orCutOff(err))
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
