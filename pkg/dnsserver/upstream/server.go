// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Default ports (RFC 1035 section 4.2, RFC 7858 section 3.1).
const (
	portDNS = 53
	portTLS = 853
)

const (
	schemeTLS = "tls://"
	schemeTCP = "tcp://"
)

// Server is the address and transport of an upstream server. The zero value is not valid.
type Server struct {
	Addr netip.AddrPort
	TCP  bool   // TCP only (RFC 7766); default: UDP, and TCP for long messages
	TLS  bool   // DNS over TLS (RFC 7858); excludes TCP
	Name string // name in the certificate; empty: the address
}

// String returns the form that [ParseServer] parses.
func (s Server) String() string {
	text := s.Addr.String()
	switch {
	case s.TLS && s.Name != "":
		return schemeTLS + text + "#" + s.Name
	case s.TLS:
		return schemeTLS + text
	case s.TCP:
		return schemeTCP + text
	default:
		return text
	}
}

// MarshalText returns String, for logs.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseServer parses ADDR, ADDR:PORT or [ADDR]:PORT. The prefix "tcp://" selects TCP only,
// "tls://" DNS over TLS; with TLS the suffix "#NAME" gives the name in the certificate.
func ParseServer(spec string) (Server, error) {
	s, err := parseServer(spec)
	if err != nil {
		return Server{}, fmt.Errorf("upstream server %q: %w", spec, err)
	}
	return s, nil
}

func parseServer(spec string) (Server, error) {
	var s Server
	rest, port := spec, uint16(portDNS)
	if before, after, ok := strings.Cut(spec, "://"); ok {
		switch rest = after; before + "://" {
		case schemeTLS:
			s.TLS, port = true, portTLS
		case schemeTCP:
			s.TCP = true
		default:
			return Server{}, fmt.Errorf("unsupported scheme %q: want ADDRESS, %sADDRESS or %sADDRESS", before, schemeTCP, schemeTLS)
		}
	}
	address, name, hasName := strings.Cut(rest, "#")
	switch {
	case hasName && !s.TLS:
		return Server{}, fmt.Errorf("#NAME is only valid with %s", schemeTLS)
	case hasName:
		if problems := fqdn.SubdomainProblems(strings.ToLower(name)); problems != nil {
			return Server{}, fmt.Errorf("name %q: %s", name, problems[0])
		}
		s.Name = strings.ToLower(name)
	}
	var err error
	s.Addr, err = parseAddress(address, port)
	return s, err
}

// parseAddress parses an address with an optional port.
func parseAddress(text string, port uint16) (netip.AddrPort, error) {
	server, err := netip.ParseAddrPort(text)
	if err == nil {
		port = server.Port()
	}
	addr := server.Addr()
	if err != nil {
		addr, err = netip.ParseAddr(text)
	}
	switch {
	case err != nil, port == 0:
		return netip.AddrPort{}, errors.New("not an IP address with an optional port: want ADDRESS, IPV4:PORT or [IPV6]:PORT")
	case addr.Is4In6():
		return netip.AddrPort{}, fmt.Errorf("IPv4-mapped IPv6 address: write it as %s", addr.Unmap())
	case addr.IsUnspecified(), addr.IsMulticast():
		return netip.AddrPort{}, fmt.Errorf("%s is not a unicast address", addr)
	}
	return netip.AddrPortFrom(addr, port), nil
}

// udpSize is the largest message over UDP: it passes every network unfragmented (DNS
// flag day 2020).
const udpSize = 1232

// query is a query to forward. Its wire form has the ID zero; each transmission sets its
// own.
type query struct {
	question   dns.Question // name in lower case
	wire       []byte
	hasOptions bool // it has EDNS0 options, such as a search list, whose reply may take long
}

// newQuery returns the query to forward for m. It has the question, RD, CD and DO of m, those
// EDNS0 options of m whose codes are in options, and the EDNS size of this server. The rest of m
// is hop-by-hop. AD is always set, to learn what the server has validated (RFC 6840 section 5.7).
func newQuery(m *dns.Msg, options []uint16) (*query, error) {
	q := &query{question: m.Question[0]}
	q.question.Name = dns.CanonicalName(q.question.Name)
	out := dns.Msg{
		MsgHdr:   dns.MsgHdr{RecursionDesired: m.RecursionDesired, CheckingDisabled: m.CheckingDisabled, AuthenticatedData: true},
		Question: []dns.Question{q.question},
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
	var err error
	q.wire, err = out.Pack()
	return q, err
}

// withoutEDNS returns the wire form of q without its OPT record.
func (q *query) withoutEDNS() []byte {
	const arcount = 10 // the offset in the header
	end := 12          // of the header
	for q.wire[end] != 0 {
		end += 1 + int(q.wire[end])
	}
	end += 5 // the root, type and class
	wire := slices.Clone(q.wire[:end])
	binary.BigEndian.PutUint16(wire[arcount:], 0)
	return wire
}

// wantsRecursion reports whether q has the RD bit (RFC 1035 section 4.1.1).
func (q *query) wantsRecursion() bool { return q.wire[2]&1 != 0 }

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
	return len(m.Question) == 1 && r.Qtype == q.question.Qtype && r.Qclass == q.question.Qclass &&
		strings.EqualFold(r.Name, q.question.Name)
}

// randomID returns an ID that cannot be predicted from earlier ones (RFC 5452 section
// 4.3).
func randomID() uint16 {
	var b [2]byte
	rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint16(b[:])
}
