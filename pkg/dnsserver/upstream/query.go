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

// udpSize is what messages over UDP may take: it passes every network unfragmented
// (the DNS flag day of 2020).
const udpSize = 1232

// query is a question on its way. Its wire forms have ID zero; each transmission has
// its own.
type query struct {
	asked dns.Question // name in lower case
	wire  []byte
	plain []byte // without EDNS
	slow  bool   // it has options, and the answer may take long: a search list that has to be walked along
}

// newQuery returns what is sent for m: the question and the flags RD and CD, EDNS
// with our own size, DO, and the options of the codes passed. AD is always set: the
// server is to say what it validated (RFC 6840 section 5.7), and whether the asker
// is told is not its matter. The rest is between the asker and us.
func newQuery(m *dns.Msg, passed []uint16) (*query, error) {
	q := &query{asked: m.Question[0]}
	q.asked.Name = dns.CanonicalName(q.asked.Name)
	out := dns.Msg{
		MsgHdr:   dns.MsgHdr{RecursionDesired: m.RecursionDesired, CheckingDisabled: m.CheckingDisabled, AuthenticatedData: true},
		Question: []dns.Question{q.asked},
	}
	var err error
	if q.plain, err = out.Pack(); err != nil {
		return nil, err
	}
	out.SetEdns0(udpSize, false)
	if from := m.IsEdns0(); from != nil {
		to := out.IsEdns0()
		to.SetDo(from.Do())
		for _, option := range from.Option {
			if slices.Contains(passed, option.Option()) {
				to.Option, q.slow = append(to.Option, option), true
			}
		}
	}
	q.wire, err = out.Pack()
	return q, err
}

// unpack reads a message. Unlike the library it wants all the records that the header
// counts, and the data of each: what somebody has cut between two of them is not the
// whole answer. Also with an error there is a message, as far as it could be read.
func unpack(wire []byte) (*dns.Msg, error) {
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return m, err
	}
	if m.Rcode == dns.RcodeFormatError { // it may repeat the counts of what it cannot read
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
			return m, fmt.Errorf("a record of type %s has no data", dns.TypeToString[section[i].Header().Rrtype])
		}
	}
	// Data that ends between two fields is read, and then written as something else.
	again, err := m.Pack()
	if err == nil {
		err = new(dns.Msg).Unpack(again)
	}
	return m, err
}

// lacksData tells of a record that has no data although its type demands some. The
// library reads it, for the sake of UPDATE, and makes nonsense of it when it writes.
func lacksData(r dns.RR) bool {
	switch r.(type) {
	case *dns.OPT, *dns.NULL, *dns.APL, *dns.RFC3597:
		return false
	}
	return r.Header().Rdlength == 0
}

// isAnsweredBy tells whether m is a reply to q. The ID has been checked. A server
// that cannot read EDNS may not be able to repeat the question, either.
func (q *query) isAnsweredBy(m *dns.Msg) bool {
	if !m.Response || m.Opcode != dns.OpcodeQuery {
		return false
	}
	if len(m.Question) == 0 {
		return m.Rcode == dns.RcodeFormatError
	}
	r := m.Question[0]
	return len(m.Question) == 1 && r.Qtype == q.asked.Qtype && r.Qclass == q.asked.Qclass && strings.EqualFold(r.Name, q.asked.Name)
}

// randomID is not to be guessed by those who see other IDs of ours (RFC 5452
// section 4.3).
func randomID() uint16 {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}
