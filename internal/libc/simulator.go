// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Library is a C library.
type Library string

// The libraries that can be simulated.
const (
	Glibc Library = "glibc"
	Musl  Library = "musl"
)

// Libraries lists the libraries.
func Libraries() []Library { return []Library{Glibc, Musl} }

// Read parses a resolv.conf as the library does.
func (l Library) Read(text string) resolvconf.Resolver {
	if l == Musl {
		return resolvconf.Musl(text)
	}
	return resolvconf.Glibc(text)
}

// Exchange sends query to server and returns the reply. It returns when ctx ends, which
// is how the timeouts of a library are applied. Any other error means that the server is
// unreachable, as reported by ICMP. It must be safe for concurrent use. Neither side
// changes a message afterwards.
type Exchange func(ctx context.Context, server netip.Addr, query *dns.Msg) (*dns.Msg, error)

// Network carries queries. Both fields are required; musl uses UDP only.
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
	// glibc searches what follows the first dot of it.
	Hostname string

	// Hosts maps the names of /etc/hosts, in lower case, to their addresses. They are
	// consulted before DNS.
	Hosts map[string][]netip.Addr

	// First is the server that glibc queries first under the option rotate. A process
	// starts with a random one and advances by one for each candidate.
	First int
}

// Family is the address family passed to getaddrinfo(3).
type Family uint8

// The families: both, as most programs use, or one.
const (
	Both Family = iota
	IPv4
	IPv6
)

// types returns the record types to query.
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

// contains reports whether a is an address of the family.
func (f Family) contains(a netip.Addr) bool {
	return f == Both || a.Is4() == (f == IPv4)
}

// Lookup simulates getaddrinfo(3). Failures of DNS are in the Result; the error is that
// of ctx, if it ends early.
func (s Simulator) Lookup(ctx context.Context, name string, family Family) (Result, error) {
	if a, literal, valid := parseLiteral(name); literal {
		return s.literal(a, valid, family), nil
	}
	if s.Resolver.Crashes {
		return Result{Error: Crashed}, nil
	}
	if addresses := s.lookupHosts(name, family); addresses != nil {
		return Result{Addresses: addresses}, nil
	}
	var q queryLog
	var result Result
	if s.Library == Musl {
		result = (&musl{Simulator: s, queryLog: &q}).lookup(ctx, name, family)
	} else {
		result = newGlibc(s, &q).lookup(ctx, name, family)
	}
	result.Queries = q.queries
	return result, ctx.Err()
}

// Search simulates res_search(3), which programs call for records other than addresses.
func (s Simulator) Search(ctx context.Context, name string, qtype uint16) (Result, error) {
	if s.Resolver.Crashes {
		return Result{Error: Crashed}, nil
	}
	var q queryLog
	var result Result
	if s.Library == Musl {
		result = (&musl{Simulator: s, queryLog: &q}).resSearch(ctx, name, qtype)
	} else {
		result = newGlibc(s, &q).resSearch(ctx, name, qtype)
	}
	result.Queries = q.queries
	return result, ctx.Err()
}
