// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Sizes of messages, in octets.
const (
	// headerLen is that of every message (RFC 1035 section 4.1.1).
	headerLen = 12

	// minUDP is what every client takes (RFC 1035 section 4.2.1).
	minUDP = 512

	// maxUDP is the longest reply by UDP, and what we say that we take: it fits
	// into IPv6's least MTU, so that no reply is ever fragmented (RFC 9715).
	maxUDP = 1232

	// maxQuery bounds what is read of a query by UDP. A question with options
	// stays well below.
	maxQuery = 4096
)

// query is one question, and how it came.
type query struct {
	msg  *dns.Msg
	opt  *dns.OPT  // nil: the client knows no EDNS0
	name fqdn.Name // the question's, canonical
	via  transport

	client netip.Addr // the zero Addr: not known

	// atOnce: nobody is waited for. Where somebody would have to be, the answer is pending,
	// and what was to be counted on the way is not. nil: who has to be waited for is.
	atOnce *deferred
}

// deferred is what is counted when a query has turned out not to be pending. It is one
// goroutine's.
type deferred []prometheus.Counter

// count counts now, or when it is known that q is not pending.
func (q *query) count(c prometheus.Counter) {
	if q.atOnce == nil {
		c.Inc()
		return
	}
	*q.atOnce = append(*q.atOnce, c)
}

type transport uint8

const (
	overUDP transport = iota
	overTCP
)

func (t transport) String() string { return [...]string{"udp", "tcp"}[t] }

func (q *query) question() *dns.Question { return &q.msg.Question[0] }

// parse reads a message. A message that is not a query we answer gets the reply
// that says so, and one that must not be answered neither.
func parse(packet []byte, via transport) (q *query, refusal []byte) {
	// Replies are dropped: answering them, we and another server could go on
	// for ever.
	if len(packet) < headerLen || packet[2]&0x80 != 0 {
		return nil, nil
	}
	header := func(rcode int) []byte {
		r := make([]byte, headerLen)
		copy(r, packet[:2])
		r[2] = 0x80 | packet[2]&0x79 // QR, the opcode and RD
		r[3] = byte(rcode)
		return r
	}
	if opcode := int(packet[2] >> 3 & 15); opcode != dns.OpcodeQuery {
		return nil, header(dns.RcodeNotImplemented)
	}
	count := func(i int) int { return int(binary.BigEndian.Uint16(packet[4+2*i:])) }
	// One question (RFC 9619), and nothing else but OPT and a signature. The
	// counts are looked at before any memory is spent on them.
	if count(0) != 1 || count(1) != 0 || count(2) != 0 || count(3) > 2 {
		return nil, header(dns.RcodeFormatError)
	}
	m := new(dns.Msg)
	// The library takes a message that ends before what its header announces.
	if err := m.Unpack(packet); err != nil || len(m.Question) != 1 || len(m.Extra) != count(3) {
		return nil, header(dns.RcodeFormatError)
	}
	name, err := fqdn.ParseName(m.Question[0].Name)
	if err != nil {
		return nil, header(dns.RcodeFormatError)
	}
	q = &query{msg: m, opt: m.IsEdns0(), name: name, via: via}
	if rcode := q.refusal(); rcode != dns.RcodeSuccess {
		return nil, q.pack(answer{rcode: rcode})
	}
	return q, nil
}

// refusal returns the rcode for a question that no source is asked.
func (q *query) refusal() int {
	opts := 0
	for _, r := range q.msg.Extra {
		if r.Header().Rrtype == dns.TypeOPT {
			opts++
		}
	}
	switch t := q.question().Qtype; {
	case opts > 1: // RFC 6891 section 6.1.1
		return dns.RcodeFormatError
	case q.opt != nil && q.opt.Version() != 0:
		return dns.RcodeBadVers
	case q.question().Qclass != dns.ClassINET:
		return dns.RcodeRefused // CHAOS: our version is nobody's business
	case t == dns.TypeOPT:
		return dns.RcodeFormatError
	case t >= 128 && t <= 254: // transfers and other meta types, RFC 6895 section 3.1
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// about returns the question for a type of another name, to be asked of others on
// the client's behalf.
func (q *query) about(name fqdn.Name, qtype uint16) *query {
	m := new(dns.Msg)
	m.SetQuestion(name.String(), qtype)
	m.RecursionDesired, m.CheckingDisabled = q.msg.RecursionDesired, q.msg.CheckingDisabled
	m.AuthenticatedData = q.msg.AuthenticatedData
	if q.opt != nil {
		m.SetEdns0(maxUDP, q.opt.Do())
	}
	return &query{msg: m, opt: m.IsEdns0(), name: name, via: q.via, atOnce: q.atOnce}
}

// size returns the longest reply that the client takes.
func (q *query) size() int {
	switch {
	case q.via == overTCP:
		return dns.MaxMsgSize
	case q.opt == nil:
		return minUDP
	}
	return min(max(int(q.opt.UDPSize()), minUDP), maxUDP)
}
