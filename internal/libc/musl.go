// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"strings"
	"unicode"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The limits of musl.
const (
	muslMaxName      = 254 // bytes of the name passed by the program (lookup_name.c)
	muslMaxCandidate = 255 // bytes of a name and its search domain
	muslMaxType      = 255 // the highest record type (res_mkquery.c)
)

// musl simulates src/network/lookup_name.c. It has no state between two names.
type musl struct {
	Simulator
	*queryLog
}

// lookup simulates getaddrinfo. A name with at least ndots dots is queried only as it
// is; otherwise the search domains come first. The search continues after NXDOMAIN only.
func (m *musl) lookup(ctx context.Context, name string, family Family) Result {
	if text := strings.TrimSuffix(name, "."); text == "" || strings.HasSuffix(text, ".") || len(name) > muslMaxName {
		return Result{Error: NoName}
	}
	var candidates []string
	if strings.Count(name, ".") < m.Resolver.Ndots && !strings.HasSuffix(name, ".") {
		for _, domain := range m.Resolver.Search {
			if candidate := name + "." + domain; len(candidate) <= muslMaxCandidate {
				candidates = append(candidates, candidate)
			}
		}
	}
	for _, candidate := range append(candidates, name) {
		if addresses, err := m.addresses(ctx, candidate, family); err != "" || addresses != nil {
			return Result{Addresses: addresses, Error: err}
		}
	}
	return Result{Error: NoName}
}

// addresses queries one name. A name that does not exist has no addresses and no error.
func (m *musl) addresses(ctx context.Context, name string, family Family) (list []netip.Addr, err Error) {
	replies, fits := m.send(ctx, name, family.types(), false)
	switch {
	case fits:
	case m.Library == Musl123:
		return nil, NoName
	default: // as if it did not exist
		return nil, ""
	}
	for _, r := range replies {
		switch {
		case r == nil:
			return nil, Again
		case r.Rcode == dns.RcodeNameError:
			return nil, ""
		}
	}
	if m.Library == Musl123 && !isASCII(name) { // other bytes in the question are parsed as pointers (dns_parse.c)
		return nil, NoName
	}
	for _, r := range replies {
		for _, rr := range r.Answer {
			if a, ok := RecordAddr(rr); ok {
				list = append(list, a)
			}
		}
	}
	if list == nil {
		return nil, m.noAddress()
	}
	return list, ""
}

// noAddress returns the error for a name that exists and has no address.
func (m *musl) noAddress() Error {
	if m.Library == Musl123 {
		return NoName
	}
	return NoData
}

// resSearch simulates res_search, which in musl does not search.
func (m *musl) resSearch(ctx context.Context, name string, qtype uint16) Result {
	replies, fits := m.send(ctx, name, []uint16{qtype}, true)
	switch {
	case !fits:
		return Result{Error: NetDBSuccess}
	case replies[0] == nil:
		return Result{Error: TryAgain}
	case replies[0].Rcode == dns.RcodeNameError:
		return Result{Error: HostNotFound}
	case len(replies[0].Answer) == 0:
		return Result{Error: NoRecords}
	}
	return Result{Answers: replies[0].Answer}
}

// questionName returns the name of a question. musl has no escapes. musl 1.2.3 keeps a second
// final dot: the result is a packet that is not a query.
func (m *musl) questionName(name string) (string, bool) {
	if name == "" {
		name = "."
	}
	q, fits := questionName(strings.ReplaceAll(name, `\`, `\\`))
	if fits || m.Library != Musl123 {
		return q, fits
	}
	if one, two := strings.CutSuffix(name, "."); two && one != "." && len(one) <= fqdn.MaxName {
		q, fits = questionName(strings.ReplaceAll(one, `\`, `\\`))
		q += "."
	}
	return q, fits
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}
