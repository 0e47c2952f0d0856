// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

const (
	maxQuestions = 250             // about names; there are 25 about messages
	parallel     = 4               // sockets
	patience     = 2 * time.Second // the wait for a reply
	attempts     = 3               // one lost packet is not a failure
	maxFailures  = 5               // listed for each rule
)

// Run reads a cluster and sends questions about it to server. Those with a wrong reply are asked again about the cluster
// that read then returns: it may have changed. The error is that of ctx or of read.
func Run(ctx context.Context, server netip.AddrPort, read func(context.Context) (Cluster, error)) (
	result v1alpha1.ConformanceResult, err error) {
	result.Server = server.String()
	c, err := read(ctx)
	if err != nil {
		return result, err
	}
	questions := c.questions()
	chosen := sample(questions, maxQuestions)
	if err := askNames(ctx, server, chosen); err != nil {
		return result, err
	}
	if slices.ContainsFunc(chosen, func(q *question) bool { return q.failure != "" }) {
		if c, err = read(ctx); err != nil {
			return result, err
		}
		if err := askNames(ctx, server, repeat(chosen, c.questions())); err != nil {
			return result, err
		}
	}
	for _, r := range nameRules {
		result.Rules = append(result.Rules, r.result())
		for _, q := range chosen {
			if q.rule == r.id {
				add(&result.Rules[len(result.Rules)-1], q.failure)
			}
		}
	}
	for _, p := range c.probes(questions) {
		r := p.result()
		add(&r, p.run(ctx, server))
		result.Rules = append(result.Rules, r)
	}
	return result, ctx.Err()
}

func (r rule) result() v1alpha1.ConformanceRule {
	return v1alpha1.ConformanceRule{ID: r.id, Level: r.level, Source: r.source, Text: r.text, Failures: []string{}}
}

// add adds a question with what is wrong with its reply, or "".
func add(r *v1alpha1.ConformanceRule, failure string) {
	r.Questions++
	if failure == "" {
		return
	}
	if r.Failed++; len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, failure)
	}
}

// askNames sets the failures of questions.
func askNames(ctx context.Context, server netip.AddrPort, questions []*question) error {
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, q := range questions {
		group.Go(func() error {
			if why := q.ask(grouped, server); why != "" {
				q.failure = fmt.Sprintf("%s %s: %s", q.name, dns.Type(q.qtype), why)
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// repeat returns those of chosen that failed and that the cluster still has, as it is now, with no failure.
func repeat(chosen, now []*question) (again []*question) {
	for _, q := range chosen {
		if q.failure == "" {
			continue
		}
		q.failure = ""
		i := slices.IndexFunc(now, func(other *question) bool { return other.name == q.name && other.qtype == q.qtype })
		if i >= 0 {
			*q = *now[i]
			again = append(again, q)
		}
	}
	return again
}

func (q *question) ask(ctx context.Context, server netip.AddrPort) string {
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.SetEdns0(1232, false)
	replies, why := exchange(ctx, "udp", server, m)
	if why == "" && replies[0].Truncated {
		replies, why = exchange(ctx, "tcp", server, m)
	}
	if why != "" {
		return why
	}
	return q.check(replies[0])
}

func (p probe) run(ctx context.Context, server netip.AddrPort) string {
	replies, why := exchange(ctx, cmp.Or(p.network, "udp"), server, p.queries...)
	if why == "" {
		why = p.check(replies)
	}
	return why
}

// exchange sends queries on one socket, and returns their replies, or why one is missing.
func exchange(ctx context.Context, network string, server netip.AddrPort, queries ...*dns.Msg) (replies []*dns.Msg, why string) {
	for range attempts {
		if replies, why = exchangeOnce(ctx, network, server, queries); why == "" || ctx.Err() != nil {
			break
		}
	}
	return replies, why
}

func exchangeOnce(ctx context.Context, network string, server netip.AddrPort, queries []*dns.Msg) ([]*dns.Msg, string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, err.Error()
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	conn := dns.Conn{Conn: c, UDPSize: dns.MinMsgSize} // a longer datagram is cut, and then cannot be parsed
	if opt := queries[0].IsEdns0(); opt != nil {
		conn.UDPSize = opt.UDPSize()
	}
	place := map[uint16]int{}
	for i, q := range queries {
		place[q.Id] = i
		if err := conn.WriteMsg(q); err != nil {
			return nil, err.Error()
		}
	}
	replies, missing := make([]*dns.Msg, len(queries)), len(queries)
	for missing > 0 {
		m, err := conn.ReadMsg()
		if ctx.Err() != nil {
			return nil, fmt.Sprintf("no reply over %s", network)
		}
		if err != nil {
			return nil, fmt.Sprintf("no valid reply over %s: %v", network, err)
		}
		if i, ok := place[m.Id]; ok && m.Response && replies[i] == nil {
			replies[i] = m
			missing--
		}
	}
	return replies, ""
}
