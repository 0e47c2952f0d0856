// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Defaults of Config.
const (
	// DefaultTryTimeout bounds the wait for one server. The C libraries retry after five
	// seconds, in which two servers can be tried one after the other.
	DefaultTryTimeout = 2 * time.Second
	// DefaultTimeout bounds all tries of a query together.
	DefaultTimeout = 5 * time.Second
	// DefaultIdleTimeout is how long an unused connection is kept (RFC 7766 section 6.2.3: a few seconds).
	DefaultIdleTimeout = 10 * time.Second
	// DefaultLoopCheck is the interval between probes for loops.
	DefaultLoopCheck = 5 * time.Minute
)

// While a server loops or does not reply, the interval between probes is Config.LoopCheck / loopRecheck: 30 seconds by default.
const loopRecheck = 10

// Errors of [Client.Exchange] that do not come from a server.
var (
	// ErrNoServers is returned while the list of servers is empty.
	ErrNoServers = errors.New("no upstream server configured")
	// ErrNoResources is returned if the process or the machine has no file descriptor or memory for
	// a socket. It says nothing about the server or the name.
	ErrNoResources = errors.New("no file descriptor or memory for a socket")
	// ErrLoop is returned while every server is in a forwarding loop.
	ErrLoop = errors.New("every upstream server is in a forwarding loop: remove this server from the host's resolv.conf")
)

// Config configures a Client. Zero values select the defaults.
type Config struct {
	Servers []Server // may be empty until SetServers
	Policy  Policy   // the order of the servers; "": Sequential

	TryTimeout  time.Duration  // for the reply of one server; 0: DefaultTryTimeout
	Timeout     time.Duration  // for the reply of any server; 0: DefaultTimeout
	IdleTimeout time.Duration  // after which an unused connection is closed; 0: DefaultIdleTimeout
	RootCAs     *x509.CertPool // for TLS; nil: the system's

	// Options are the codes of the EDNS0 options of a query that are forwarded. All
	// other options are hop-by-hop and dropped. Usually the list is empty.
	Options []uint16

	Zone      string        // the stub domain that the servers answer for; "": the root
	Loop      *LoopDetector // nil: no loop detection
	LoopCheck time.Duration // interval of the probes for loops; 0: DefaultLoopCheck

	Metrics *Metrics // nil: no metrics

	Logger *slog.Logger // nil: no logs
}

func (c *Config) setDefaults() {
	c.TryTimeout = cmp.Or(c.TryTimeout, DefaultTryTimeout)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.LoopCheck = cmp.Or(c.LoopCheck, DefaultLoopCheck)
	c.Zone = dns.Fqdn(c.Zone)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(prometheus.NewRegistry())
	}
}

// Policy is the order in which the servers are tried. Servers that may be down are always last.
type Policy string

const (
	// Sequential is the order of the list, as the C libraries try servers.
	Sequential Policy = "sequential"
	// Random is a random order for each query.
	Random Policy = "random"
	// RoundRobin begins with the next server for each query.
	RoundRobin Policy = "roundRobin"
)

// order returns the servers in the order of the policy, with those that may be down at the end.
// Looping servers are left out.
func (c *Client) order(servers []*server) []*server {
	list := slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return s.looping.Load() })
	switch n := len(list); {
	case n < 2:
		return list
	case c.cfg.Policy == Random:
		rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
	case c.cfg.Policy == RoundRobin:
		first := int(c.turns.Add(1) % uint64(n))
		list = slices.Concat(list[first:], list[:first])
	}
	var up, down []*server
	for _, s := range list {
		if s.mayBeDown() {
			down = append(down, s)
		} else {
			up = append(up, s)
		}
	}
	return append(up, down...)
}

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

// udpSize is the largest message over UDP: it passes every network unfragmented (DNS flag day 2020).
const udpSize = 1232

// query is a query to forward. Its wire form has the ID zero; each transmission sets its own.
type query struct {
	question   dns.Question // name in lower case
	wire       []byte
	recursion  bool // RD is set
	hasOptions bool // it has EDNS0 options, such as a search list, whose reply may take long
}

// newQuery returns the query to forward for m. It has the question, RD, CD and DO of m, those
// EDNS0 options of m whose codes are in options, and the EDNS size of this server. The rest of m
// is hop-by-hop. AD is always set, to learn what the server has validated (RFC 6840 section 5.7).
func newQuery(m *dns.Msg, options []uint16) (*query, error) {
	q := &query{question: m.Question[0], recursion: m.RecursionDesired}
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
