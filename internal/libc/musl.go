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
	isOther := func(r rune) bool { return r > unicode.MaxASCII }
	if m.Library == Musl123 && strings.ContainsFunc(name, isOther) { // other bytes in the question are parsed as pointers (dns_parse.c)
		return nil, NoName
	}
	for _, r := range replies {
		list = append(list, answerAddrs(r)...)
	}
	if list == nil { // the name exists
		return nil, m.Library.otherFamily()
	}
	return list, ""
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

// muslExchange is the state of one call of res_msend.c: all servers are queried at once
// for all types, and again in each round for the types without an answer. Since 1.2.4 a type
// with a truncated answer is queried again over TCP at the server that sent it.
type muslExchange struct {
	*musl
	name     string
	types    []uint16
	ad       bool       // set the AD bit
	replies  []*dns.Msg // by type
	tcp      []bool     // by type: queried over TCP, no longer over UDP
	arrivals chan arrival
	senders  sync.WaitGroup
}

// arrival is the reply to one query, or its absence.
type arrival struct {
	question int // index of the type
	server   netip.Addr
	tcp      bool
	reply    *dns.Msg
}

// send queries all servers and returns the first answer for each type, nil for a type
// without one. An answer is NOERROR or NXDOMAIN. SERVFAIL is retried at once, at most
// twice as often in a round as there are questions; other replies are ignored. The
// result is false for a name or a type that does not fit into a query. ad is set by
// res_search.
func (m *musl) send(ctx context.Context, name string, types []uint16, ad bool) ([]*dns.Msg, bool) {
	question, fits := m.questionName(name)
	if !fits || slices.Max(types) > muslMaxType {
		return nil, false
	}
	timeout := time.Duration(m.Resolver.Timeout) * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrTimeout)
	defer cancel()
	e := &muslExchange{musl: m, name: question, types: types, ad: ad, arrivals: make(chan arrival),
		replies: make([]*dns.Msg, len(types)), tcp: make([]bool, len(types))}
	defer e.senders.Wait()
	sending, stop := context.WithCancelCause(ctx)
	defer stop(ErrOvertaken)

	interval := m.muslInterval()
	for elapsed := time.Duration(0); elapsed < timeout; elapsed += interval {
		e.sendMissing(sending)
		if !e.receive(ctx, sending, interval) {
			break
		}
	}
	if slices.Contains(e.replies, nil) {
		stop(ErrTimeout)
	}
	return e.replies, true
}

// sendMissing queries all servers for the types without an answer.
func (e *muslExchange) sendMissing(ctx context.Context) {
	for i, r := range e.replies {
		for _, server := range e.Resolver.Nameservers {
			if r == nil && !e.tcp[i] {
				e.sendQuery(ctx, i, server)
			}
		}
	}
}

// sendQuery queries one server for the type at index i, in the background.
func (e *muslExchange) sendQuery(ctx context.Context, i int, server netip.Addr) {
	q := Query{Name: e.name, Type: e.types[i], Server: server, TCP: e.tcp[i]}
	if strings.HasSuffix(e.name, "..") {
		q.Err = ErrMalformed
		e.add(q)
		return
	}
	logged := e.add(q)
	e.senders.Go(func() {
		reply, _ := logged.exchange(ctx, e.Network, e.ad, 0)
		select {
		case e.arrivals <- arrival{i, server, q.TCP, reply}:
		case <-ctx.Done():
		}
	})
}

// receive collects replies until the next round is due. It returns false if there is no
// next round: all replies have arrived, TCP has failed, or ctx has ended.
func (e *muslExchange) receive(ctx, sending context.Context, interval time.Duration) bool {
	due := time.NewTimer(interval)
	defer due.Stop()
	retries := 2 * len(e.replies)
	for slices.Contains(e.replies, nil) {
		select {
		case a := <-e.arrivals:
			switch {
			case a.tcp && !a.isAnswer(): // the other type is given up, too
				return false
			case e.replies[a.question] != nil || e.tcp[a.question] != a.tcp:
			case a.isAnswer() && a.reply.Truncated && !a.tcp && e.Library != Musl123:
				e.tcp[a.question] = true
				e.sendQuery(sending, a.question, a.server)
			case a.isAnswer():
				e.replies[a.question] = a.reply
			case a.reply != nil && a.reply.Rcode == dns.RcodeServerFailure && retries > 0:
				retries--
				e.sendQuery(sending, a.question, a.server)
			}
		case <-due.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// isAnswer reports whether musl uses the reply: NOERROR or NXDOMAIN.
func (a arrival) isAnswer() bool {
	return a.reply != nil && (a.reply.Rcode == dns.RcodeSuccess || a.reply.Rcode == dns.RcodeNameError)
}
