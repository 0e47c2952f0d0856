// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// lookup plays getaddrinfo over the service dns of nsswitch.conf.
func (g *glibc) lookup(ctx context.Context, name string, family Family) Result {
	if _, fits := question(name); name != "" && !fits || !isHostName(name) {
		return Result{Error: NoName}
	}
	if family == IPv4 && looksDotted(name) {
		return Result{Error: NoName}
	}
	types := family.types()
	if g.Resolver.NoAAAA && family == Both {
		types = []uint16{dns.TypeA}
	}
	r, ok := g.search(ctx, name, types)
	if !ok {
		return Result{Error: g.failure(family)}
	}
	list := addresses(r)
	switch {
	case list != nil:
		return Result{Addresses: list}
	case family == IPv4:
		return Result{Error: NoData}
	default:
		return Result{Error: NoName}
	}
}

// failure is the error for a search that found nothing. A program that wants IPv4
// alone goes an older way through the library, on which "try again" is only said
// if the servers failed at the last candidate.
func (g *glibc) failure(family Family) Error {
	old := family == IPv4
	switch {
	case g.herrno == NoRecords, old && g.errno != 0 && g.herrno != TryAgain:
		return NoData
	case g.herrno == TryAgain && !(old && g.errno == 0):
		return Again
	default:
		return NoName
	}
}

// resSearch plays res_search.
func (g *glibc) resSearch(ctx context.Context, name string, qtype uint16) Result {
	r, ok := g.search(ctx, name, []uint16{qtype})
	if !ok {
		return Result{Error: g.herrno}
	}
	return Result{Answers: r[0].Answer}
}

// addresses reads the replies of a search that found something. Their names must
// be those of hosts.
func addresses(r replies) (list []netip.Addr) {
	for _, m := range r {
		if m != nil && isHostName(m.Question[0].Name) {
			list = append(list, chain(m)...)
		}
	}
	return list
}

// chain returns the addresses, of the type asked for, that belong to the name asked
// for or to the alias before them. Whose alias that is does not matter.
func chain(m *dns.Msg) (list []netip.Addr) {
	q := m.Question[0]
	owner := q.Name
	for _, rr := range m.Answer {
		if alias, ok := rr.(*dns.CNAME); ok {
			owner = alias.Target
			continue
		}
		a, ok := addressOf(rr)
		if ok && rr.Header().Rrtype == q.Qtype && strings.EqualFold(rr.Header().Name, owner) {
			list = append(list, a)
		}
	}
	return list
}
