// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"strings"

	"github.com/miekg/dns"
)

// glibc is the state of a process (struct __res_state) during a lookup, and the
// steps of it:
//
//	lookup     getaddrinfo(3), nss_dns     what the program gets
//	search     res_search                  which names
//	query      res_query                   what the replies say
//	send       res_send                    which servers, in glibc_send.go
type glibc struct {
	Player
	*record

	herrno Error // what the last step left in h_errno

	// errno is ECONNREFUSED if no server could be reached for the last name,
	// ETIMEDOUT if none of them said anything that helps, else 0.
	errno errno

	// buffer has the last reply to the first question to be answered, also one
	// that was turned away. nil is none for this name.
	buffer *dns.Msg

	next int // the server to begin with

	// single and reopen are the options, or set for good when a server answers
	// only one of two questions that are asked at once.
	single, reopen bool

	noOPT bool // in the place of a question for AAAA under no-aaaa
}

func (p Player) glibc(r *record) *glibc {
	g := &glibc{Player: p, record: r, next: p.First}
	g.reopen = p.Resolver.SingleRequestReopen
	g.single = p.Resolver.SingleRequest || g.reopen
	return g
}

// replies are those to one question or two. Two nil pointers are none.
type replies [2]*dns.Msg

// errno is what glibc looks at of errno.
type errno uint8

const (
	refused errno = iota + 1
	timedOut
)

// searchList are the domains of res_search.
func (g *glibc) searchList() []string {
	if len(g.Resolver.Search) > 0 {
		return g.Resolver.Search
	}
	if _, domain, _ := strings.Cut(g.Hostname, "."); domain != "" {
		return []string{domain}
	}
	return nil
}

// search tries the name and its search domains until replies have something. The
// name comes first if it has enough dots, otherwise last.
func (g *glibc) search(ctx context.Context, name string, types []uint16) (replies, bool) {
	g.herrno, g.errno = HostNotFound, 0
	dots, rooted := strings.Count(name, "."), strings.HasSuffix(name, ".")

	asItIs := Error("")
	tried := dots >= g.Resolver.Ndots || rooted
	if tried {
		if r, ok := g.query(ctx, name, types); ok || rooted {
			return r, ok
		}
		asItIs = g.herrno
	}

	var noData, servFail, root bool
	searched := false
	if !rooted {
	domains:
		for _, domain := range g.searchList() {
			searched = true
			domain = strings.TrimPrefix(domain, ".") // the root, in either form
			root = root || domain == ""
			if r, ok := g.query(ctx, name+"."+domain, types); ok {
				return r, true
			}
			if g.errno == refused {
				g.herrno = TryAgain
				return replies{}, false
			}
			switch {
			case g.herrno == NoRecords:
				noData = true
			case g.herrno == HostNotFound:
			case g.herrno == TryAgain && g.buffer != nil && g.buffer.Rcode == dns.RcodeServerFailure:
				servFail = true
			default: // stop, but try the name itself
				break domains
			}
		}
	}

	if !tried && !root && (dots > 0 || !searched || !g.Resolver.NoTLDQuery) {
		if r, ok := g.query(ctx, name, types); ok {
			return r, true
		}
	}
	switch {
	case asItIs != "":
		g.herrno = asItIs
	case noData:
		g.herrno = NoRecords
	case servFail:
		g.herrno = TryAgain
	}
	return replies{}, false
}

// query asks for one name. It is true if a reply has an answer section without an
// error; all else is in herrno.
func (g *glibc) query(ctx context.Context, name string, types []uint16) (replies, bool) {
	g.buffer = nil
	question, ok := question(name)
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
	if found(first) || found(second) {
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

// found tells whether a reply has an answer.
func found(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 }
