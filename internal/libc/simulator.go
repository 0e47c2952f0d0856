// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Library is a resolver that programs are linked with: a C library, or package net of Go.
type Library string

// The libraries that can be simulated.
const (
	Glibc   Library = "glibc"      // 2.36
	Musl    Library = "musl"       // 1.2.5, since Alpine 3.20
	Musl123 Library = "musl-1.2.3" // without TCP and EAI_NODATA: before Alpine 3.18
	Go      Library = "go"         // package net of Go 1.26 without cgo
)

// Libraries lists the libraries.
func Libraries() []Library { return []Library{Glibc, Musl, Musl123, Go} }

// Read parses a resolv.conf as the library does.
func (l Library) Read(text string) resolvconf.Resolver {
	switch {
	case l.isMusl():
		return resolvconf.Musl(text)
	case l == Go:
		return resolvconf.Go(text)
	default:
		return resolvconf.Glibc(text)
	}
}

func (l Library) isMusl() bool { return l == Musl || l == Musl123 }

// QueriesAllServers reports whether the library queries all nameservers at once and uses
// the first reply. Otherwise it queries one after the other.
func (l Library) QueriesAllServers() bool { return l.isMusl() }

// Exchange sends query to server and returns the reply. It returns when ctx ends, which
// is how the timeouts of a library are applied. Any other error means that the server is
// unreachable, as reported by ICMP. It must be safe for concurrent use. Neither side
// changes a message afterwards.
type Exchange func(ctx context.Context, server netip.Addr, query *dns.Msg) (*dns.Msg, error)

// Network carries queries. Both fields are required.
type Network struct {
	UDP, TCP Exchange
}

// Simulator simulates a library in a process that is new for every lookup. Library,
// Resolver and Network are required.
type Simulator struct {
	Library  Library
	Resolver resolvconf.Resolver // the resolv.conf as parsed by Library.Read
	Network  Network

	// Hostname is the result of gethostname(2). If the file has no search domains,
	// glibc and Go search what follows the first dot of it.
	Hostname string

	// Hosts maps the names of /etc/hosts, in lower case, to their addresses. They are
	// consulted before DNS.
	Hosts map[string][]netip.Addr

	// First is the server that is queried first under the option rotate. A process with
	// glibc starts with a random one and advances by one for each candidate. Go starts
	// with 0 and advances by one for each question.
	First int
}

// LostQuery returns how long the library waits for the reply to a query that is lost. It is 0 if the library queries
// several servers at once.
func (s Simulator) LostQuery() time.Duration {
	timeout := time.Duration(s.Resolver.Timeout) * time.Second
	switch {
	case s.Library == Glibc:
		return max(timeout, time.Second)
	case !s.Library.QueriesAllServers():
		return timeout
	case len(s.Resolver.Nameservers) > 1:
		return 0
	}
	return s.muslInterval()
}

// muslInterval returns the time after which musl sends a query again.
func (s Simulator) muslInterval() time.Duration {
	timeout := time.Duration(s.Resolver.Timeout) * time.Second
	return (timeout / time.Duration(max(s.Resolver.Attempts, 1))).Truncate(time.Millisecond)
}

// Family is the address family passed to getaddrinfo(3).
type Family uint8

// The families: both, as most programs use, or one.
const (
	Both Family = iota
	IPv4
	IPv6
)

func (f Family) types() []uint16 {
	switch f {
	case IPv4:
		return []uint16{dns.TypeA}
	case IPv6:
		return []uint16{dns.TypeAAAA}
	default:
		return []uint16{dns.TypeA, dns.TypeAAAA}
	}
}

func (f Family) contains(a netip.Addr) bool {
	return f == Both || a.Is4() == (f == IPv4)
}

// Lookup simulates getaddrinfo(3), or net.Resolver.LookupIPAddr of Go. Failures of DNS are in the
// Result; the error is the error of ctx, if it ends early.
func (s Simulator) Lookup(ctx context.Context, name string, family Family) (Result, error) {
	if result, literal := s.lookupLiteral(name, family); literal {
		return result, nil
	}
	if s.Resolver.Crashes {
		return Result{Error: Crashed}, nil
	}
	if result, found := s.lookupHosts(name, family); found {
		return result, nil
	}
	var q queryLog
	return q.complete(s.start(&q).lookup(ctx, name, family)), ctx.Err()
}

// Search simulates res_search(3), which programs call for records other than addresses,
// and for Go net.Resolver.LookupTXT and its like.
func (s Simulator) Search(ctx context.Context, name string, qtype uint16) (Result, error) {
	if s.Resolver.Crashes {
		return Result{Error: Crashed}, nil
	}
	var q queryLog
	return q.complete(s.start(&q).resSearch(ctx, name, qtype)), ctx.Err()
}

// process is a process with a library.
type process interface {
	lookup(ctx context.Context, name string, family Family) Result
	resSearch(ctx context.Context, name string, qtype uint16) Result
}

// start returns a new process, whose queries are added to q.
func (s Simulator) start(q *queryLog) process {
	switch {
	case s.Library.isMusl():
		return &musl{s, q}
	case s.Library == Go:
		return &golang{Simulator: s, queryLog: q}
	default:
		return newGlibc(s, q)
	}
}

// Reasons for a query without a reply. Any other error comes from the network: the
// server is unreachable.
var (
	// ErrTimeout: the library stopped waiting.
	ErrTimeout = errors.New("timeout")

	// ErrOvertaken: musl queries all servers at once, and another one replied first.
	ErrOvertaken = errors.New("overtaken")

	// ErrMalformed: for a name with two final dots, such as one in the search domain
	// ".", musl 1.2.3 sends a packet that is not a query. Servers do not reply to it.
	ErrMalformed = errors.New("malformed")
)

// Query is a query as it was sent.
type Query struct {
	Name   string // with the final dot
	Type   uint16
	Server netip.Addr
	TCP    bool

	Reply *dns.Msg      // nil: no reply that the library accepts
	Err   error         // why Reply is nil: [ErrTimeout], [ErrOvertaken], [ErrMalformed] or the network's error
	Took  time.Duration // from sending to the reply or the error
}

// queryLog collects the queries of a lookup in the order sent.
type queryLog struct {
	mu      sync.Mutex // guards queries: they are sent concurrently
	queries []*Query
}

// add appends a query that is about to be sent.
func (l *queryLog) add(q Query) *Query {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries = append(l.queries, &q)
	return &q
}

// complete returns a result with the queries, which have ended.
func (l *queryLog) complete(r Result) Result {
	for _, q := range l.queries {
		r.Queries = append(r.Queries, *q)
	}
	return r
}

// exchange sends the message of q and sets the reply. In the message RD is set, as all libraries do, and ad is the
// flag AD. edns is the size in the OPT record; 0: it has none.
func (q *Query) exchange(ctx context.Context, n Network, ad bool, edns uint16) (*dns.Msg, error) {
	msg := new(dns.Msg).SetQuestion(q.Name, q.Type)
	if msg.AuthenticatedData = ad; edns > 0 {
		msg.SetEdns0(edns, false)
	}
	send := n.UDP
	if q.TCP {
		send = n.TCP
	}
	start := time.Now()
	reply, err := send(ctx, q.Server, msg)
	q.Took = time.Since(start)
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil && reply != nil && len(reply.Question) == 1 && reply.Question[0].Qtype == msg.Question[0].Qtype &&
		strings.EqualFold(reply.Question[0].Name, msg.Question[0].Name):
	case err == nil: // the reply is to another question
		reply, err = nil, ErrTimeout
	case context.Cause(ctx) != nil:
		reply, err = nil, context.Cause(ctx)
	case errors.As(err, &timeout) && timeout.Timeout():
		reply, err = nil, ErrTimeout
	default:
		reply = nil
	}
	q.Reply, q.Err = reply, err
	return reply, err
}

// answerAddrs returns the addresses in the answer section of a reply, whatever their owner; nil: there is no reply.
func answerAddrs(reply *dns.Msg) (list []netip.Addr) {
	if reply == nil {
		return nil
	}
	for _, rr := range reply.Answer {
		if a, ok := RecordAddr(rr); ok {
			list = append(list, a)
		}
	}
	return list
}

// RecordAddr returns the address in an A or AAAA record.
func RecordAddr(rr dns.RR) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		a, ok := netip.AddrFromSlice(rr.A.To4())
		return a, ok
	case *dns.AAAA:
		return netip.AddrFromSlice(rr.AAAA.To16())
	}
	return netip.Addr{}, false
}
