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

	"github.com/miekg/dns"
)

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
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	e := &muslExchange{musl: m, name: question, types: types, ad: ad, arrivals: make(chan arrival),
		replies: make([]*dns.Msg, len(types)), tcp: make([]bool, len(types))}
	defer e.senders.Wait()
	sending, stop := context.WithCancelCause(ctx)
	defer stop(ErrOvertaken)

	interval := (timeout / time.Duration(m.Resolver.Attempts)).Truncate(time.Millisecond)
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
	index := e.add(q)
	e.senders.Go(func() {
		msg := newMessage(e.name, q.Type)
		msg.AuthenticatedData = e.ad
		reply, _ := e.exchange(ctx, e.Network, index, q, msg)
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
