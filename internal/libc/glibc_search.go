// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// glibc is the state of a process (struct __res_state) during a lookup. Its steps are:
//
//	lookup     getaddrinfo(3), nss_dns     the program's result
//	search     res_search                  the candidate names
//	query      res_query                   the contents of the replies
//	send       res_send                    the servers, in glibc_send.go
type glibc struct {
	Simulator
	*queryLog

	herrno Error // h_errno after the last step

	// errno is ECONNREFUSED if no server was reachable for the last name, ETIMEDOUT
	// if no server sent an acceptable reply, else 0.
	errno errno

	// buffer holds the last reply to the first question to be answered, accepted or
	// not. It is nil if there was no reply for this name.
	buffer *dns.Msg

	next int // the server to begin with

	// single and reopen are the options of these names. They are also set, for the
	// rest of the process, if a server answers only one of two simultaneous questions.
	single, reopen bool

	noOPT bool // set for the query that no-aaaa sends instead of AAAA
}

func newGlibc(s Simulator, q *queryLog) *glibc {
	return &glibc{
		Simulator: s, queryLog: q, next: s.First,
		reopen: s.Resolver.SingleRequestReopen,
		single: s.Resolver.SingleRequest || s.Resolver.SingleRequestReopen,
	}
}

// replies holds the replies to one question or two, nil for a question without a reply.
type replies [2]*dns.Msg

// errno is the part of errno(3) that affects a search.
type errno uint8

const (
	refused errno = iota + 1
	timedOut
)

// searchList returns the search domains of glibc and Go.
func searchList(r resolvconf.Resolver, hostname string) []string {
	if len(r.Search) > 0 {
		return r.Search
	}
	if _, domain, _ := strings.Cut(hostname, "."); domain != "" {
		return []string{domain}
	}
	return nil
}

// search queries the name and its search domains until one has an answer. The name
// itself is queried first if it has at least ndots dots, otherwise last.
func (g *glibc) search(ctx context.Context, name string, types []uint16) (replies, bool) {
	g.herrno, g.errno = HostNotFound, 0
	if strings.HasSuffix(name, ".") {
		return g.query(ctx, name, types)
	}
	dots := strings.Count(name, ".")
	bareFirst := dots >= g.Resolver.Ndots
	var bareError Error // h_errno of the name itself, if it came first
	if bareFirst {
		if r, ok := g.query(ctx, name, types); ok {
			return r, true
		}
		bareError = g.herrno
	}
	domains := searchList(g.Resolver, g.Hostname)
	r, failures, end := g.searchDomains(ctx, name, domains, types)
	if end {
		return r, r != replies{}
	}
	if !bareFirst && !failures.root && (dots > 0 || len(domains) == 0 || !g.Resolver.NoTLDQuery) {
		if r, ok := g.query(ctx, name, types); ok {
			return r, true
		}
	}
	switch {
	case bareError != "":
		g.herrno = bareError
	case failures.noData:
		g.herrno = NoRecords
	case failures.servFail:
		g.herrno = TryAgain
	}
	return replies{}, false
}

// searchFailures records how the candidates of a search failed.
type searchFailures struct {
	noData   bool // a name exists and has no answer
	servFail bool
	root     bool // the root is a search domain: the name itself was tried
}

// searchDomains queries the name in each domain. end means that the search ends there,
// with the replies or, if no server is reachable, without.
func (g *glibc) searchDomains(ctx context.Context, name string, domains []string,
	types []uint16) (r replies, failures searchFailures, end bool) {
	for _, domain := range domains {
		domain = strings.TrimPrefix(domain, ".") // the root, in either form
		failures.root = failures.root || domain == ""
		if r, ok := g.query(ctx, name+"."+domain, types); ok {
			return r, failures, true
		}
		switch {
		case g.errno == refused:
			g.herrno = TryAgain
			return replies{}, failures, true
		case g.herrno == NoRecords:
			failures.noData = true
		case g.herrno == HostNotFound:
		case g.herrno == TryAgain && g.buffer != nil && g.buffer.Rcode == dns.RcodeServerFailure:
			failures.servFail = true
		default: // other domains are skipped, the name itself is not
			return replies{}, failures, false
		}
	}
	return replies{}, failures, false
}

// query queries one name. It returns true if a reply without an error has an answer
// section. Otherwise the reason is in herrno.
func (g *glibc) query(ctx context.Context, name string, types []uint16) (replies, bool) {
	g.buffer = nil
	question, ok := questionName(name)
	if !ok {
		g.herrno, g.errno = NoRecovery, 0
		return replies{}, false
	}
	r, ok := g.send(ctx, question, types)
	if !ok {
		g.herrno = TryAgain
		return replies{}, false
	}
	first, second := r[0], r[1]
	if second == nil {
		second = first
	}
	if first == nil {
		first = second
	}
	if hasAnswer(first) || hasAnswer(second) {
		return r, true
	}
	rcode := first.Rcode
	if rcode == dns.RcodeSuccess {
		rcode = second.Rcode
	}
	switch rcode {
	case dns.RcodeSuccess:
		g.herrno = NoRecords
	case dns.RcodeNameError:
		g.herrno = HostNotFound
	case dns.RcodeServerFailure:
		g.herrno = TryAgain
	default:
		g.herrno = NoRecovery
	}
	return replies{}, false
}

func hasAnswer(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 }

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
	var list []netip.Addr
	for _, m := range r {
		if m != nil && isHostName(m.Question[0].Name) { // other replies are ignored
			list = append(list, addressesOf(m)...)
		}
	}
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
