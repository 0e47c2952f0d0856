// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	goEDNSSize     = 1232 // the UDP payload size that Go sends (maxDNSPacketSize)
	goMaxCandidate = 254  // bytes of a name and its search domain, with the final dot
	goMaxQueries   = 1000 // for a question: Go has no limit for the option attempts
)

// golang simulates the resolver of Go's package net (dnsclient_unix.go). Each question is
// sent from its own socket, and goes through servers and attempts by itself.
type golang struct {
	Simulator
	*queryLog

	questions int // so far, which the option rotate counts
}

// goAnswer is the result of one question.
type goAnswer struct {
	reply *dns.Msg // nil: Error is set
	Error
	took time.Duration
}

// lookup simulates Resolver.LookupIPAddr, and Resolver.LookupIP for one family.
func (g *golang) lookup(ctx context.Context, name string, family Family) Result {
	if !isGoDomainName(name) {
		return Result{Error: GoNoSuchHost}
	}
	candidates := g.candidates(name)
	if candidates == nil { // LookupIPAddr returns an empty list, and connections fail
		return Result{Error: GoNoSuitableAddress}
	}
	var failure Error
	var list []netip.Addr
	for _, candidate := range candidates {
		for _, a := range g.ask(ctx, candidate, family.types()) {
			if a.Error != "" && (failure == "" || candidate == name+".") {
				failure = a.Error // the error of the name itself, or the first
			}
			list = append(list, answerAddrs(a.reply)...)
		}
		if list != nil {
			return Result{Addresses: list}
		}
	}
	return Result{Error: failure}
}

// resSearch simulates Resolver.LookupTXT, LookupSRV, LookupMX and LookupNS. The error is
// the last candidate's.
func (g *golang) resSearch(ctx context.Context, name string, qtype uint16) Result {
	switch qtype {
	case dns.TypeTXT, dns.TypeSRV, dns.TypeMX, dns.TypeNS:
	default:
		return Result{Error: GoUnsupported}
	}
	if !isGoDomainName(name) {
		return Result{Error: GoNoSuchHost}
	}
	failure := GoCannotUnmarshal // of a message that was not received, if there is no candidate
	for _, candidate := range g.candidates(name) {
		a := g.begin(candidate, qtype)(ctx)
		if a.Error == "" {
			return Result{Answers: slices.DeleteFunc(slices.Clone(a.reply.Answer), func(rr dns.RR) bool {
				return rr.Header().Rrtype != qtype
			})}
		}
		failure = a.Error
	}
	return Result{Error: failure}
}

// candidates returns the names to query, each with a final dot.
func (g *golang) candidates(name string) (list []string) {
	if strings.HasSuffix(name, ".") {
		if isOnion(name) {
			return nil
		}
		return []string{name}
	}
	rooted := name + "."
	if !isOnion(rooted) && strings.Count(name, ".") >= g.Resolver.Ndots {
		list = append(list, rooted)
	}
	for _, domain := range searchList(g.Resolver, g.Hostname) {
		candidate := rooted + strings.TrimSuffix(domain, ".") + "."
		if !isOnion(candidate) && len(candidate) <= goMaxCandidate {
			list = append(list, candidate)
		}
	}
	if !isOnion(rooted) && strings.Count(name, ".") < g.Resolver.Ndots {
		list = append(list, rooted)
	}
	return list
}

// isOnion reports whether Go does not query a name (RFC 7686).
func isOnion(rooted string) bool { return strings.HasSuffix(strings.ToLower(rooted), ".onion.") }

// ask queries all types, at once or one after the other, and returns the answers in the order of their arrival.
func (g *golang) ask(ctx context.Context, name string, types []uint16) []goAnswer {
	answers := make([]goAnswer, len(types))
	if g.Resolver.SingleRequest {
		for i, t := range types {
			answers[i] = g.begin(name, t)(ctx)
		}
		return answers
	}
	var wait sync.WaitGroup
	for i, t := range types {
		ask := g.begin(name, t)
		wait.Go(func() { answers[i] = ask(ctx) })
	}
	wait.Wait()
	slices.SortStableFunc(answers, func(a, b goAnswer) int { return cmp.Compare(a.took, b.took) })
	return answers
}

// begin logs the first query of a question and returns the function that sends it.
func (g *golang) begin(name string, qtype uint16) func(context.Context) goAnswer {
	first := 0
	if g.Resolver.Rotate {
		first = g.First + g.questions
		g.questions++
	}
	question, ok := questionName(strings.ReplaceAll(name, `\`, `\\`)) // Go has no escapes
	if !ok {
		return func(context.Context) goAnswer { return goAnswer{Error: GoCannotMarshal} }
	}
	q := g.add(Query{Name: question, Type: qtype, Server: g.server(first), TCP: g.Resolver.UseVC})
	return func(ctx context.Context) goAnswer { return g.tryServers(ctx, q, first) }
}

func (g *golang) server(i int) netip.Addr {
	return g.Resolver.Nameservers[i%len(g.Resolver.Nameservers)]
}

// tryServers queries one server after the other, for Attempts rounds, until one has an answer
// or denies that there is one. q is the first query.
func (g *golang) tryServers(ctx context.Context, q *Query, first int) (a goAnswer) {
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	for i := range min(g.Resolver.Attempts*len(g.Resolver.Nameservers), goMaxQueries) {
		if i > 0 {
			q = g.add(Query{Name: q.Name, Type: q.Type, Server: g.server(first + i), TCP: q.TCP})
		}
		a = g.query(ctx, q)
		if a.Error == "" || a.Error == GoNoSuchHost || ctx.Err() != nil {
			return a
		}
	}
	return a
}

// query queries one server, and again over TCP if the reply is truncated.
func (g *golang) query(ctx context.Context, q *Query) goAnswer {
	reply, err := g.send(ctx, q)
	if err == nil && reply.Truncated && !q.TCP {
		reply, err = g.send(ctx, g.add(Query{Name: q.Name, Type: q.Type, Server: q.Server, TCP: true}))
	}
	switch {
	case errors.Is(err, ErrTimeout):
		return goAnswer{Error: GoTimeout}
	case err != nil:
		return goAnswer{Error: GoUnreachable}
	}
	return goAnswer{reply: reply, Error: goError(reply, q.Type)}
}

func (g *golang) send(ctx context.Context, q *Query) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(g.Resolver.Timeout)*time.Second, ErrTimeout)
	defer cancel()
	return q.exchange(ctx, g.Network, g.Resolver.TrustAD, goEDNSSize)
}

func goError(reply *dns.Msg, qtype uint16) Error {
	hasType := slices.ContainsFunc(reply.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == qtype })
	switch {
	case reply.Rcode == dns.RcodeNameError:
		return GoNoSuchHost
	case reply.Rcode == dns.RcodeServerFailure:
		return GoTemporary
	case reply.Rcode != dns.RcodeSuccess:
		return GoMisbehaving
	case len(reply.Answer) == 0 && !reply.Authoritative && !reply.RecursionAvailable && len(reply.Extra) == 0:
		return GoLame
	case !hasType:
		return GoNoSuchHost
	}
	return ""
}

// isGoDomainName reports whether Go looks a name up: letters, digits, "-" and "_", not only
// digits; no label begins or ends with "-".
func isGoDomainName(name string) bool {
	base := strings.TrimSuffix(name, ".")
	if name == "." {
		return true
	}
	if base == "" || len(base) >= goMaxCandidate || strings.Trim(base, "0123456789.") == "" {
		return false
	}
	for label := range strings.SplitSeq(base, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' ||
			label[len(label)-1] == '-' || strings.IndexFunc(label, isNotHostRune) >= 0 {
			return false
		}
	}
	return true
}
