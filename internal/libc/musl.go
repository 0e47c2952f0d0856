// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// The limits of musl.
const (
	muslName      = 254 // bytes of the name that a program gives (lookup_name.c)
	muslCandidate = 255 // bytes of a name and its search domain
	muslType      = 255 // the types that it can ask for (res_mkquery.c)
)

// musl plays src/network/lookup_name.c and res_msend.c. It keeps nothing between
// two names.
type musl struct {
	Player
	*record
}

// lookup plays getaddrinfo. A name with enough dots is tried as it is and no
// other way; else the search domains come first. The search goes on after
// NXDOMAIN and after nothing else.
func (m *musl) lookup(ctx context.Context, name string, family Family) Result {
	if text := strings.TrimSuffix(name, "."); text == "" || strings.HasSuffix(text, ".") || len(name) > muslName {
		return Result{Error: NoName}
	}
	var candidates []string
	if strings.Count(name, ".") < m.Resolver.Ndots && !strings.HasSuffix(name, ".") {
		for _, domain := range m.Resolver.Search {
			if candidate := name + "." + domain; len(candidate) <= muslCandidate {
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

// addresses asks for one name. Without an address and an error it does not exist.
func (m *musl) addresses(ctx context.Context, name string, family Family) (list []netip.Addr, err Error) {
	replies, fits := m.send(ctx, name, family.types(), false)
	if !fits {
		return nil, NoName
	}
	for _, r := range replies {
		switch {
		case r == nil:
			return nil, Again
		case r.Rcode == dns.RcodeNameError:
			return nil, ""
		}
	}
	for _, r := range replies {
		if !isASCII(name) { // other bytes in the question are taken for pointers (dns_parse.c)
			break
		}
		for _, rr := range r.Answer {
			if a, ok := addressOf(rr); ok {
				list = append(list, a)
			}
		}
	}
	if list == nil {
		return nil, NoName
	}
	return list, ""
}

// query plays res_search, which in musl searches nothing.
func (m *musl) query(ctx context.Context, name string, qtype uint16) Result {
	replies, fits := m.send(ctx, name, []uint16{qtype}, true)
	switch {
	case !fits:
		return Result{Error: Unsaid}
	case replies[0] == nil:
		return Result{Error: TryAgain}
	case replies[0].Rcode == dns.RcodeNameError:
		return Result{Error: HostNotFound}
	case len(replies[0].Answer) == 0:
		return Result{Error: NoRecords}
	}
	return Result{Answers: replies[0].Answer}
}

// arrival is what came of one query.
type arrival struct {
	question int // index of the type
	server   netip.Addr
	reply    *dns.Msg
}

// send asks all servers at once for all types, and again in each round for those
// that have no answer. An answer is NOERROR or NXDOMAIN, from whoever is first; a
// server that fails is asked again at once, twice as often in a round as there
// are questions; all else is as if it had not come. It is false for a name or a
// type that no query can hold. The AD bit is that of res_search.
func (m *musl) send(ctx context.Context, name string, types []uint16, ad bool) ([]*dns.Msg, bool) {
	asked, fits := muslQuestion(name)
	for _, t := range types {
		fits = fits && t <= muslType
	}
	if !fits {
		return nil, false
	}
	replies := make([]*dns.Msg, len(types))
	timeout := time.Duration(m.Resolver.Timeout) * time.Second
	ctx, cancel := patience(ctx, timeout)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	overtaken, stop := context.WithCancelCause(ctx)
	defer stop(ErrOvertaken)

	arrivals := make(chan arrival)
	ask := func(i int, server netip.Addr) {
		q := Query{Name: asked, Type: types[i], Server: server}
		if strings.HasSuffix(asked, "..") {
			q.Err = ErrMalformed
			m.sent(q)
			return
		}
		at := m.sent(q)
		wait.Go(func() {
			msg := message(asked, types[i])
			msg.AuthenticatedData = ad
			reply, _ := m.exchange(overtaken, m.Network, at, q, msg)
			select {
			case arrivals <- arrival{i, server, reply}:
			case <-overtaken.Done():
			}
		})
	}
	interval := (timeout / time.Duration(m.Resolver.Attempts)).Truncate(time.Millisecond)
	for at := time.Duration(0); at < timeout; at += interval {
		for i, r := range replies {
			for _, server := range m.Resolver.Nameservers {
				if r == nil {
					ask(i, server)
				}
			}
		}
		if !m.round(ctx, interval, replies, arrivals, ask) {
			break
		}
	}
	if slices.Contains(replies, nil) {
		stop(ErrTimeout)
	}
	return replies, true
}

// muslQuestion is the name of a question. There are no escapes. A second final
// dot stays, which makes a packet that is no query.
func muslQuestion(name string) (string, bool) {
	if name == "" {
		name = "."
	}
	q, fits := question(strings.ReplaceAll(name, `\`, `\\`))
	if one, two := strings.CutSuffix(name, "."); !fits && two && one != "." && len(one) <= fqdn.MaxName {
		q, fits = question(strings.ReplaceAll(one, `\`, `\\`))
		q += "."
	}
	return q, fits
}

// round takes replies until the next round is due. It is false when there is none:
// all replies are there, or ctx has ended.
func (m *musl) round(ctx context.Context, interval time.Duration, replies []*dns.Msg, arrivals <-chan arrival, again func(int, netip.Addr)) bool {
	due := time.NewTimer(interval)
	defer due.Stop()
	retries := 2 * len(replies)
	for slices.Contains(replies, nil) {
		select {
		case a := <-arrivals:
			switch {
			case a.reply == nil || replies[a.question] != nil:
			case a.reply.Rcode == dns.RcodeSuccess || a.reply.Rcode == dns.RcodeNameError:
				replies[a.question] = a.reply
			case a.reply.Rcode == dns.RcodeServerFailure && retries > 0:
				retries--
				again(a.question, a.server)
			}
		case <-due.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}
