// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// udpSize is the largest message over UDP: it passes every network unfragmented (DNS
// flag day 2020).
const udpSize = 1232

// query is a query to forward. Its wire forms have the ID zero; each transmission sets
// its own.
type query struct {
	question    dns.Question // name in lower case
	wire        []byte
	withoutEDNS []byte
	hasOptions  bool // such as a search list, whose reply may take long
}

// newQuery returns the query to forward for m: its question, RD, CD and DO, with this
// server's EDNS size, and those of its options whose codes are listed. The rest of m is
// hop-by-hop. AD is always set, to learn what the server has validated (RFC 6840 section
// 5.7).
func newQuery(m *dns.Msg, options []uint16) (*query, error) {
	q := &query{question: m.Question[0]}
	q.question.Name = dns.CanonicalName(q.question.Name)
	out := dns.Msg{
		MsgHdr:   dns.MsgHdr{RecursionDesired: m.RecursionDesired, CheckingDisabled: m.CheckingDisabled, AuthenticatedData: true},
		Question: []dns.Question{q.question},
	}
	var err error
	if q.withoutEDNS, err = out.Pack(); err != nil {
		return nil, err
	}
	out.SetEdns0(udpSize, false)
	if from := m.IsEdns0(); from != nil {
		to := out.IsEdns0()
		to.SetDo(from.Do())
		for _, option := range from.Option {
			if slices.Contains(options, option.Option()) {
				to.Option, q.hasOptions = append(to.Option, option), true
			}
		}
	}
	q.wire, err = out.Pack()
	return q, err
}

// unpack parses a message. Unlike the library it requires all records that the header
// counts, with complete data: a message that was cut between two records or two fields
// is not the whole answer. With an error it returns the message as far as it is readable.
func unpack(wire []byte) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return m, err
	}
	if m.Rcode == dns.RcodeFormatError { // may repeat the counts of the query without its records
		m.Answer, m.Ns = nil, nil
		return m, nil
	}
	for i, section := range []int{len(m.Question), len(m.Answer), len(m.Ns), len(m.Extra)} {
		if counted := binary.BigEndian.Uint16(wire[4+2*i:]); int(counted) != section {
			return m, fmt.Errorf("section %d has %d records, the header counts %d", i, section, counted)
		}
	}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		if i := slices.IndexFunc(section, lacksData); i >= 0 {
			return m, fmt.Errorf("record of type %s has no data", dns.TypeToString[section[i].Header().Rrtype])
		}
	}
	// The library accepts data that ends between two fields, and packs it differently.
	again, err := m.Pack()
	if err == nil {
		err = new(dns.Msg).Unpack(again)
	}
	return m, err
}

// lacksData reports whether r has no data although its type requires some. The library
// accepts such records, for UPDATE, and packs them wrong.
func lacksData(r dns.RR) bool {
	switch r.(type) {
	case *dns.OPT, *dns.NULL, *dns.APL, *dns.RFC3597:
		return false
	}
	return r.Header().Rdlength == 0
}

// matches reports whether m is a reply to q. The caller has checked the ID. A FORMERR
// need not repeat the question: the server may not have been able to parse it.
func (q *query) matches(m *dns.Msg) bool {
	if !m.Response || m.Opcode != dns.OpcodeQuery {
		return false
	}
	if len(m.Question) == 0 {
		return m.Rcode == dns.RcodeFormatError
	}
	r := m.Question[0]
	return len(m.Question) == 1 && r.Qtype == q.question.Qtype && r.Qclass == q.question.Qclass && strings.EqualFold(r.Name, q.question.Name)
}

// randomID returns an ID that cannot be predicted from earlier ones (RFC 5452 section
// 4.3).
func randomID() uint16 {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}
