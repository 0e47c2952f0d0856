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

// ednsSize is the UDP payload size that glibc sends under the option edns0
// (RESOLV_EDNS_BUFFER_SIZE).
const ednsSize = 1200

// sendStatus is the outcome of querying one server.
type sendStatus uint8

const (
	tryNext sendStatus = iota // no acceptable reply: the next server is queried
	answered
	truncated // the server is queried again over TCP
)

// send queries one server after the other, for Attempts rounds, until one has an answer
// or denies that there is one.
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
			var r replies
			var status sendStatus
			r, status, tcp = g.sendTo(ctx, (first+i)%n, tcp, name, types)
			if status == answered || ctx.Err() != nil {
				g.errno = 0
				return r, status == answered
			}
		}
		if tcp { // there are no further rounds over TCP
			break
		}
	}
	return replies{}, false
}

// sendTo queries one server, over TCP if tcp is set or a reply is truncated. After a
// truncated reply the next servers are queried over TCP too: then tcpNext is set.
func (g *glibc) sendTo(ctx context.Context, server int, tcp bool, name string,
	types []uint16) (r replies, status sendStatus, tcpNext bool) {
	if !tcp {
		if r, status = g.sendUDP(ctx, server, name, types); status != truncated {
			return r, status, false
		}
	}
	r, status = g.sendTCP(ctx, server, name, types)
	return r, status, true
}

// sendNoAAAA implements the option no-aaaa for a query of AAAA alone: A is queried,
// without an OPT record, and the answer is removed from the reply. No reply at all is
// therefore an empty answer too.
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

// sendUDP queries all types, in parallel or in sequence.
func (g *glibc) sendUDP(ctx context.Context, server int, name string, types []uint16) (replies, sendStatus) {
	for {
		waiting, cancel := context.WithTimeoutCause(ctx, g.timeout(server), ErrTimeout)
		got := g.exchangeAll(waiting, server, false, name, types)
		cancel()
		one, other := got[0], got[1]
		if len(types) == 1 {
			other = one
		}
		half := one.accepted() != other.accepted() && (one.timedOut() || other.timedOut())
		switch {
		case one.truncated() || other.truncated():
			return replies{}, truncated
		case half && g.separateQueries():
			continue
		case !one.accepted() && !other.accepted():
			return replies{}, tryNext
		}
		for i, r := range got {
			if !r.accepted() {
				got[i].Msg = nil
			}
		}
		return replies{got[0].Msg, got[1].Msg}, answered
	}
}

// separateQueries sends the two questions in sequence from now on, then also from
// separate sockets: some servers and firewalls drop the second of two simultaneous
// questions. It returns false if both are done already.
func (g *glibc) separateQueries() bool {
	isDone := g.single && g.reopen
	g.single, g.reopen = true, g.single
	return !isDone
}

// sendTCP queries all types in parallel. The rcodes are ignored: no other server is
// queried after SERVFAIL.
func (g *glibc) sendTCP(ctx context.Context, server int, name string, types []uint16) (replies, sendStatus) {
	got := g.exchangeAll(ctx, server, true, name, types)
	for _, r := range got[:len(types)] {
		if r.Msg == nil {
			if !r.timedOut() {
				g.errno = refused
			}
			return replies{}, tryNext
		}
	}
	return replies{got[0].Msg, got[1].Msg}, answered
}

// timeout returns how long glibc waits for a server: the timeout doubles with each
// server, and from the second on it is divided by the number of servers.
func (g *glibc) timeout(server int) time.Duration {
	seconds := g.Resolver.Timeout << server
	if server > 0 {
		seconds /= len(g.Resolver.Nameservers)
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

// exchangeAll queries all types at once, or over UDP one after the other: then the second is not queried if the first reply
// is truncated or not accepted. It updates errno and the buffer for each reply or its absence.
func (g *glibc) exchangeAll(ctx context.Context, server int, tcp bool, name string, types []uint16) (got [2]reply) {
	var wait sync.WaitGroup
	for i, t := range types {
		q := g.add(Query{Name: name, Type: t, Server: g.Resolver.Nameservers[server], TCP: tcp})
		if tcp || !g.single {
			wait.Go(func() { got[i] = g.exchangeQuery(ctx, q) })
		} else if got[i] = g.exchangeQuery(ctx, q); !got[i].accepted() || got[i].truncated() {
			break
		}
	}
	wait.Wait()
	for _, r := range got[:len(types)] {
		if r.Msg != nil || r.timedOut() {
			g.errno = timedOut
		}
	}
	if got[0].Msg != nil { // it counts as answered first
		g.buffer = got[0].Msg
	} else if got[1].Msg != nil && !tcp {
		g.buffer = got[1].Msg
	}
	return got
}

func (g *glibc) exchangeQuery(ctx context.Context, q *Query) reply {
	edns := uint16(0)
	if g.Resolver.EDNS0 && !g.noOPT {
		edns = ednsSize
	}
	msg, err := q.exchange(ctx, g.Network, g.Resolver.TrustAD, edns)
	return reply{Msg: msg, err: err}
}

// reply is the reply to a query, or the reason for its absence.
type reply struct {
	*dns.Msg
	err error
}

// timedOut reports whether the server is reachable and did not reply.
func (r reply) timedOut() bool { return errors.Is(r.err, ErrTimeout) }

func (r reply) truncated() bool { return r.Msg != nil && r.Truncated && !r.rejected() }

// accepted reports whether glibc reads the reply.
func (r reply) accepted() bool { return r.Msg != nil && !r.rejected() }

// rejected reports whether glibc queries the next server: the server failed, refused,
// does not implement the query, or sent a referral.
func (r reply) rejected() bool {
	switch r.Rcode {
	case dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused:
		return true
	}
	return r.Rcode == dns.RcodeSuccess && len(r.Answer) == 0 && !r.Authoritative && !r.RecursionAvailable && len(r.Extra) == 0
}
