// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// lookup simulates getaddrinfo with the service dns of nsswitch.conf.
func (g *glibc) lookup(ctx context.Context, name string, family Family) Result {
	if _, fits := questionName(name); name != "" && !fits || !isHostName(name) {
		return Result{Error: NoName}
	}
	if family == IPv4 && isDottedDigits(name) {
		return Result{Error: NoName}
	}
	types := family.types()
	if g.Resolver.NoAAAA && family == Both {
		types = []uint16{dns.TypeA}
	}
	r, ok := g.search(ctx, name, types)
	if !ok {
		return Result{Error: g.lookupError(family)}
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

// lookupError returns the error of a search that found nothing. A lookup of IPv4 alone
// takes an older path through the library, which returns EAI_AGAIN only if the servers
// failed for the last candidate.
func (g *glibc) lookupError(family Family) Error {
	oldPath := family == IPv4
	switch {
	case g.herrno == NoRecords, oldPath && g.errno != 0 && g.herrno != TryAgain:
		return NoData
	case g.herrno == TryAgain && !(oldPath && g.errno == 0):
		return Again
	default:
		return NoName
	}
}

// resSearch simulates res_search.
func (g *glibc) resSearch(ctx context.Context, name string, qtype uint16) Result {
	r, ok := g.search(ctx, name, []uint16{qtype})
	if !ok {
		return Result{Error: g.herrno}
	}
	return Result{Answers: r[0].Answer}
}

// addresses returns the addresses in the replies of a successful search. Replies to
// names that are not host names are ignored.
func addresses(r replies) (list []netip.Addr) {
	for _, m := range r {
		if m != nil && isHostName(m.Question[0].Name) {
			list = append(list, addressesOf(m)...)
		}
	}
	return list
}

// addressesOf returns the addresses of the queried type that belong to the queried name
// or to the target of the preceding CNAME. glibc does not check the CNAME's owner.
func addressesOf(m *dns.Msg) (list []netip.Addr) {
	q := m.Question[0]
	owner := q.Name
	for _, rr := range m.Answer {
		if alias, ok := rr.(*dns.CNAME); ok {
			owner = alias.Target
			continue
		}
		a, ok := RecordAddr(rr)
		if ok && rr.Header().Rrtype == q.Qtype && strings.EqualFold(rr.Header().Name, owner) {
			list = append(list, a)
		}
	}
	return list
}
