// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Library is a C library.
type Library string

// The libraries that can be played.
const (
	Glibc Library = "glibc"
	Musl  Library = "musl"
)

// Libraries lists them.
func Libraries() []Library { return []Library{Glibc, Musl} }

// Read returns what the library makes of a resolv.conf.
func (l Library) Read(text string) resolvconf.Resolver {
	if l == Musl {
		return resolvconf.Musl(text)
	}
	return resolvconf.Glibc(text)
}

// Exchange sends query to server and returns the reply to it. It ends when ctx
// does, which is how a library's patience ends; an error of another kind means
// that the server cannot be reached, as an ICMP message says it. It must be safe
// for concurrent use, and neither side changes a message afterwards.
type Exchange func(ctx context.Context, server netip.Addr, query *dns.Msg) (*dns.Msg, error)

// Network carries queries. Both ways must be there; musl uses UDP alone.
type Network struct {
	UDP, TCP Exchange
}

// Player plays a library in one process, which is new for every lookup. All
// fields but the last three must be set.
type Player struct {
	Library  Library
	Resolver resolvconf.Resolver // what Library makes of the resolv.conf
	Network  Network

	// Hostname is what gethostname(2) returns. With glibc, what follows its
	// first dot is the search list of a file that has none.
	Hostname string

	// Hosts are the names of /etc/hosts in lower case, and their addresses. They
	// are looked at before DNS.
	Hosts map[string][]netip.Addr

	// First is the server that glibc asks first under the option rotate. A
	// process takes any, and goes on with the next for each candidate.
	First int
}

// Family is what a program wants of getaddrinfo(3).
type Family uint8

// The families: both, as most programs want, or one.
const (
	Both Family = iota
	IPv4
	IPv6
)

// types are the record types that are asked for.
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

// wants tells whether an address is of the family.
func (f Family) wants(a netip.Addr) bool {
	return f == Both || a.Is4() == (f == IPv4)
}

// Query is a query as it was sent.
type Query struct {
	Name   string // with its final dot
	Type   uint16
	Server netip.Addr
	TCP    bool

	Reply *dns.Msg      // nil: there was none that the library had use for
	Err   error         // why there is no reply: [ErrTimeout], [ErrOvertaken] or that of the network
	Took  time.Duration // until then
}

// Result is what a program gets, and what it took.
type Result struct {
	Queries   []Query      // in the order in which they were sent; of those sent at once, A is before AAAA
	Addresses []netip.Addr // of getaddrinfo, in the order of the answers
	Answers   []dns.RR     // of res_search: the answer section
	Error     Error        // "": found
}

// Lookup plays getaddrinfo(3). The error is that of ctx, if it ends early; the
// failures of DNS are in the Result.
func (p Player) Lookup(ctx context.Context, name string, family Family) (Result, error) {
	if a, literal, good := parseLiteral(name); literal {
		return p.literal(a, good, family), nil
	}
	if p.Resolver.Dies {
		return Result{Error: Died}, nil
	}
	if addresses, found := p.hosts(name, family); found {
		return Result{Addresses: addresses}, nil
	}
	r := record{}
	var result Result
	if p.Library == Musl {
		result = (&musl{Player: p, record: &r}).lookup(ctx, name, family)
	} else {
		result = p.glibc(&r).lookup(ctx, name, family)
	}
	result.Queries = r.queries
	return result, ctx.Err()
}

// Search plays res_search(3), which programs use for records other than
// addresses.
func (p Player) Search(ctx context.Context, name string, qtype uint16) (Result, error) {
	if p.Resolver.Dies {
		return Result{Error: Died}, nil
	}
	r := record{}
	var result Result
	if p.Library == Musl {
		result = (&musl{Player: p, record: &r}).query(ctx, name, qtype)
	} else {
		result = p.glibc(&r).resSearch(ctx, name, qtype)
	}
	result.Queries = r.queries
	return result, ctx.Err()
}
