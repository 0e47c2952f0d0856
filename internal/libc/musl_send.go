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
// for all types, and again in each round for the types without an answer.
type muslExchange struct {
	*musl
	name     string
	types    []uint16
	ad       bool       // set the AD bit
	replies  []*dns.Msg // by type
	arrivals chan arrival
	senders  sync.WaitGroup
}

// arrival is the reply to one query, or its absence.
type arrival struct {
	question int // index of the type
	server   netip.Addr
	reply    *dns.Msg
}

// send queries all servers and returns the first answer for each type, nil for a type
// without one. An answer is NOERROR or NXDOMAIN. SERVFAIL is retried at once, at most
// twice as often in a round as there are questions; other replies are ignored. The
// result is false for a name or a type that does not fit into a query. ad is set by
// res_search.
func (m *musl) send(ctx context.Context, name string, types []uint16, ad bool) ([]*dns.Msg, bool) {
	question, fits := muslQuestionName(name)
	if !fits || slices.Max(types) > muslMaxType {
		return nil, false
	}
	timeout := time.Duration(m.Resolver.Timeout) * time.Second
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	e := &muslExchange{musl: m, name: question, types: types, ad: ad, replies: make([]*dns.Msg, len(types)), arrivals: make(chan arrival)}
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
			if r == nil {
				e.sendQuery(ctx, i, server)
			}
		}
	}
}

// sendQuery queries one server for the type at index i, in the background.
func (e *muslExchange) sendQuery(ctx context.Context, i int, server netip.Addr) {
	q := Query{Name: e.name, Type: e.types[i], Server: server}
	if strings.HasSuffix(e.name, "..") {
		q.Err = ErrMalformed
		e.add(q)
		return
	}
	index := e.add(q)
	e.senders.Go(func() {
		msg := newMessage(e.name, e.types[i])
		msg.AuthenticatedData = e.ad
		reply, _ := e.exchange(ctx, e.Network, index, q, msg)
		select {
		case e.arrivals <- arrival{i, server, reply}:
		case <-ctx.Done():
		}
	})
}

// receive collects replies until the next round is due. It returns false if there is no
// next round: all replies have arrived, or ctx has ended.
func (e *muslExchange) receive(ctx, sending context.Context, interval time.Duration) bool {
	due := time.NewTimer(interval)
	defer due.Stop()
	retries := 2 * len(e.replies)
	for slices.Contains(e.replies, nil) {
		select {
		case a := <-e.arrivals:
			switch {
			case a.reply == nil || e.replies[a.question] != nil:
			case a.reply.Rcode == dns.RcodeSuccess || a.reply.Rcode == dns.RcodeNameError:
				e.replies[a.question] = a.reply
			case a.reply.Rcode == dns.RcodeServerFailure && retries > 0:
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
