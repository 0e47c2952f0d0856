// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package libc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// ednsSize is the size of replies that glibc takes over UDP under the option
// edns0 (RESOLV_EDNS_BUFFER_SIZE).
const ednsSize = 1200

// verdict is what glibc makes of a server.
type verdict uint8

const (
	nextServer verdict = iota // it has nothing to say
	answered
	truncated // ask it again over TCP
)

// send asks one server after the other, Attempts times around, until one has an
// answer or says that there is none.
func (g *glibc) send(ctx context.Context, name string, types []uint16) (replies, bool) {
	if slices.Equal(types, []uint16{dns.TypeAAAA}) && g.Resolver.NoAAAA {
		return g.sendNoAAAA(ctx, name)
	}
	n := len(g.Resolver.Nameservers)
	first := 0
	if g.Resolver.Rotate {
		first = g.next % n
		g.next++
	}
	tcp := g.Resolver.UseVC
	g.errno = refused
	for range g.Resolver.Attempts {
		for i := range n {
			server := (first + i) % n
			r, v := replies{}, truncated
			if !tcp {
				r, v = g.overUDP(ctx, server, name, types)
			}
			if v == truncated {
				tcp = true
				r, v = g.overTCP(ctx, server, name, types)
			}
			if v == answered || ctx.Err() != nil {
				g.errno = 0
				return r, v == answered
			}
		}
		if tcp { // one attempt for each server
			break
		}
	}
	return replies{}, false
}

// sendNoAAAA is what the option no-aaaa makes of a question for AAAA: one for A,
// without an OPT record, from the reply to which the answer is taken. Silence thus
// becomes an answer too.
func (g *glibc) sendNoAAAA(ctx context.Context, name string) (replies, bool) {
	g.noOPT = true
	defer func() { g.noOPT = false }()
	r, ok := g.send(ctx, name, []uint16{dns.TypeA})
	if !ok {
		return replies{new(dns.Msg)}, g.buffer == nil
	}
	empty := *r[0]
	empty.Answer = nil
	return replies{&empty}, true
}

// overUDP asks for all types, at once or one after the other.
func (g *glibc) overUDP(ctx context.Context, server int, name string, types []uint16) (replies, verdict) {
	for {
		wait, cancel := patience(ctx, g.timeout(server))
		var got [2]reply
		if g.single {
			got = g.inTurn(wait, server, name, types)
		} else {
			got = g.atOnce(wait, server, false, name, types)
		}
		cancel()
		for _, r := range got[:len(types)] {
			g.heard(r)
		}
		one, other := got[0], got[1]
		if len(types) == 1 {
			other = one
		}
		if one.truncated() || other.truncated() {
			return replies{}, truncated
		}
		if half := one.good() != other.good(); half && (one.silent() || other.silent()) {
			// Some servers and firewalls cannot take two questions at once.
			switch {
			case !g.single:
				g.single = true
				continue
			case !g.reopen:
				g.reopen = true
				continue
			}
		}
		if !one.good() && !other.good() {
			return replies{}, nextServer
		}
		r := replies{one.useful(), nil}
		if len(types) > 1 {
			r[1] = other.useful()
		}
		return r, answered
	}
}

// overTCP asks for all types at once. What the replies say is not looked at: no
// other server is asked after a SERVFAIL.
func (g *glibc) overTCP(ctx context.Context, server int, name string, types []uint16) (replies, verdict) {
	got := g.atOnce(ctx, server, true, name, types)
	for _, r := range got[:len(types)] {
		g.heard(r)
		if r.Msg == nil {
			if !r.silent() {
				g.errno = refused
			}
			return replies{}, nextServer
		}
	}
	return replies{got[0].Msg, got[1].Msg}, answered
}

// timeout is how long glibc waits for a server: twice as long for each, shared by
// all of them.
func (g *glibc) timeout(server int) time.Duration {
	seconds := g.Resolver.Timeout << server
	if server > 0 {
		seconds /= len(g.Resolver.Nameservers)
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

// heard notes what a reply, or none, does to errno and to the buffer.
func (g *glibc) heard(r reply) {
	if r.Msg != nil || r.silent() {
		g.errno = timedOut
	}
	if r.Msg != nil && r.first {
		g.buffer = r.Msg
	}
}

// inTurn asks for one type after the other. The second is not asked for when the
// first reply is turned away or truncated.
func (g *glibc) inTurn(ctx context.Context, server int, name string, types []uint16) (got [2]reply) {
	for i, t := range types {
		got[i] = g.ask(ctx, g.newQuery(server, false, name, t))
		got[i].first = i == 0
		if !got[i].good() || got[i].truncated() {
			break
		}
	}
	return got
}

// atOnce asks for all types. The first one is taken to be answered first.
func (g *glibc) atOnce(ctx context.Context, server int, tcp bool, name string, types []uint16) (got [2]reply) {
	var wait sync.WaitGroup
	for i, t := range types {
		ask := g.newQuery(server, tcp, name, t)
		wait.Go(func() { got[i] = g.ask(ctx, ask) })
	}
	wait.Wait()
	got[0].first = true
	got[1].first = got[0].Msg == nil
	return got
}

// asked is a query that has its place in the record.
type asked struct {
	Query
	at int
}

func (g *glibc) newQuery(server int, tcp bool, name string, qtype uint16) asked {
	q := Query{Name: name, Type: qtype, Server: g.Resolver.Nameservers[server], TCP: tcp}
	return asked{q, g.sent(q)}
}

// ask sends a query and waits for the reply.
func (g *glibc) ask(ctx context.Context, q asked) reply {
	m := message(q.Name, q.Type)
	m.AuthenticatedData = g.Resolver.TrustAD
	if g.Resolver.EDNS0 && !g.noOPT {
		m.SetEdns0(ednsSize, false)
	}
	msg, err := g.exchange(ctx, g.Network, q.at, q.Query, m)
	return reply{Msg: msg, err: err}
}

// reply is what came of a query.
type reply struct {
	*dns.Msg
	err   error
	first bool // of the replies to the questions asked together
}

// silent tells whether the server said nothing, although it can be reached.
func (r reply) silent() bool { return errors.Is(r.err, ErrTimeout) }

func (r reply) truncated() bool { return r.Msg != nil && r.Truncated && !r.turnedAway() }

// good tells whether glibc looks into a reply.
func (r reply) good() bool { return r.Msg != nil && !r.turnedAway() }

// turnedAway tells whether glibc asks the next server: the server failed, cannot
// or does not want to answer, or refers to another one.
func (r reply) turnedAway() bool {
	switch r.Rcode {
	case dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused:
		return true
	}
	return r.Rcode == dns.RcodeSuccess && len(r.Answer) == 0 && !r.Authoritative && !r.RecursionAvailable && len(r.Extra) == 0
}

// useful is the reply if it is good.
func (r reply) useful() *dns.Msg {
	if r.good() {
		return r.Msg
	}
	return nil
}
