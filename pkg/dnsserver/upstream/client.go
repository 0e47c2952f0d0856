// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

// Client asks a set of servers. All methods may be called concurrently. Make one with
// [New].
type Client struct {
	cfg     Config
	servers atomic.Pointer[[]*server] // replaced as a whole, under mu
	changed chan struct{}             // holds one: Run has to look at the servers
	flights singleflight.Group        // by the wire form of the query
	turn    atomic.Uint32             // of the policy RoundRobin
	flying  atomic.Int64

	mu    sync.Mutex
	spawn func(func(context.Context)) // starts a goroutine of Run; nil while it does not run
}

// New returns a client of cfg.Servers. It does nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	c := &Client{cfg: cfg, changed: make(chan struct{}, 1)}
	c.servers.Store(new([]*server))
	c.SetServers(cfg.Servers)
	return c, nil
}

// SetServers replaces the servers. Those that stay keep what is known of them, and
// queries on their way end as they began. Servers that are named twice count once.
func (c *Client) SetServers(list []Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.servers.Load()
	servers := make([]*server, 0, len(list))
	for _, want := range list {
		same := func(s *server) bool { return s.Server == want }
		if slices.ContainsFunc(servers, same) {
			continue
		}
		if i := slices.IndexFunc(old, same); i >= 0 {
			servers = append(servers, old[i])
		} else {
			servers = append(servers, &server{Server: want, log: c.cfg.Logger})
		}
	}
	c.servers.Store(&servers)
	for _, s := range old {
		if !slices.Contains(servers, s) {
			c.cfg.Metrics.forget(prometheus.Labels{"zone": c.cfg.Zone, "server": s.Server.String()})
		}
	}
	c.look()
}

// look makes Run look at the servers.
func (c *Client) look() {
	select {
	case c.changed <- struct{}{}:
	default: // it will
	}
}

// Status is what is known of a server.
type Status struct {
	Server  Server
	Down    bool // it does not answer; others are asked first
	Looping bool // it sends our queries back to us and is not asked
}

// Status returns the state of all servers, in the order of the list.
func (c *Client) Status() []Status {
	var list []Status
	for _, s := range *c.servers.Load() {
		s.mu.Lock()
		list = append(list, Status{Server: s.Server, Down: s.failures >= restAfter, Looping: s.looping})
		s.mu.Unlock()
	}
	return list
}

// Exchange asks the servers and returns the first good reply, or else the first
// SERVFAIL, REFUSED or NOTIMP that one gave, or a truncated reply where TCP does not
// work. It returns an error when no server replied in time; when ctx ends, its error.
//
// Of query it takes the question, RD, CD, DO and the options of Config.Options. The
// reply is to query: it has its ID and its spelling of the question. It has the
// servers' OPT record, and AD as they set it, which an asker must not see unless it
// set AD or DO itself (RFC 6840 section 5.8). Callers with equal queries share the
// reply's records, and must not change them.
func (c *Client) Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	if len(query.Question) != 1 {
		return nil, fmt.Errorf("a query has one question, not %d", len(query.Question))
	}
	q, err := newQuery(query, c.cfg.Options)
	if err != nil {
		return nil, fmt.Errorf("packing the query: %w", err)
	}
	flight := c.flights.DoChan(string(q.wire), func() (_ any, err error) {
		defer c.contain(&err)
		// The flight belongs to all who share it and goes on when the first leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
		defer cancel()
		return c.fly(ctx, q)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-flight:
		if r.Err != nil {
			return nil, r.Err
		}
		return addressed(r.Val.(*dns.Msg), query), nil
	}
}

// contain makes an error of a panic. Nobody above a flight could: it has a goroutine of
// its own. It is deferred.
func (c *Client) contain(err *error) {
	if fault := recover(); fault != nil {
		c.cfg.Logger.Error("asking upstream servers panicked", "panic", fault, "stack", string(debug.Stack()))
		*err = fmt.Errorf("asking upstream servers panicked: %v", fault)
	}
}

// addressed returns reply as the reply to query. Appending to its sections does not
// reach those of others.
func addressed(reply, query *dns.Msg) *dns.Msg {
	m := *reply
	m.Id, m.Authoritative = query.Id, false
	m.RecursionDesired, m.CheckingDisabled = query.RecursionDesired, query.CheckingDisabled
	m.Question = slices.Clone(query.Question)
	m.Answer, m.Ns, m.Extra = slices.Clip(m.Answer), slices.Clip(m.Ns), slices.Clip(m.Extra)
	return &m
}

// fly asks one server after the other, and those that were silent once more.
func (c *Client) fly(ctx context.Context, q *query) (*dns.Msg, error) {
	defer c.flying.Add(-1)
	if c.flying.Add(1) > int64(c.cfg.MaxConcurrent) {
		return nil, ErrBusy
	}
	all := *c.servers.Load()
	if len(all) == 0 {
		return nil, ErrNoServers
	}
	list := order(all, c.cfg.Policy, c.turn.Add(1)-1, time.Now(), c.cfg.TryTimeout)
	if len(list) == 0 {
		return nil, ErrLoop
	}
	const rounds = 2
	var poor *dns.Msg // better than nothing
	var last error
	for range rounds {
		var silent []*server
		for _, s := range list {
			if ctx.Err() != nil {
				break
			}
			m, err := c.try(ctx, s, q)
			switch {
			case err != nil:
				last = fmt.Errorf("%v: %w", s.Server, err)
				silent = append(silent, s)
			case !anotherMayKnow(m):
				return m, nil
			case poor == nil:
				poor = m
			}
		}
		list = silent
	}
	if poor != nil {
		return poor, nil
	}
	return nil, fmt.Errorf("no upstream server answers, the last one was %w", last)
}

// anotherMayKnow tells whether the next server is asked after the reply m: for the
// rcodes of the C libraries, and when there is more that did not get through.
func anotherMayKnow(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented:
		return true
	}
	return m.Truncated
}

// try asks one server, once more without EDNS if it does not understand that (RFC
// 6891 section 7), and takes note of how it does.
func (c *Client) try(ctx context.Context, s *server, q *query) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
	defer cancel()
	begin := time.Now()
	m, err := c.send(ctx, s, q, q.wire)
	if err == nil && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) && m.IsEdns0() == nil {
		m, err = c.send(ctx, s, q, q.plain)
	}
	switch now := time.Now(); {
	case err == nil:
		s.succeeded(now)
	case q.slow && s.heardSince(begin):
		return nil, err // which says nothing of the server, but of a domain in the list
	default:
		s.failed(now, err)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// send transmits a query over what the server is asked by, and over TCP if UDP does
// not do, for the reply or for a query with long options. If TCP does not work either,
// the truncated reply is what there is: some resolvers can make do with it, and the
// server is not to blame for a firewall.
func (c *Client) send(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	if s.TLS {
		return c.observed(s, "tls", func() (*dns.Msg, error) { return c.overStream(ctx, s, q, wire) })
	}
	if s.TCP || len(wire) > udpSize { // a query that long may not pass the network in one piece
		return c.observed(s, "tcp", func() (*dns.Msg, error) { return c.overStream(ctx, s, q, wire) })
	}
	m, err := c.observed(s, "udp", func() (*dns.Msg, error) { return overUDP(ctx, s.Server, q, wire) })
	if !errors.Is(err, errUseTCP) {
		return m, err
	}
	whole, err := c.observed(s, "tcp", func() (*dns.Msg, error) { return c.overStream(ctx, s, q, wire) })
	if err != nil && m != nil {
		return m, nil
	}
	return whole, err
}

func (c *Client) observed(s *server, network string, exchange func() (*dns.Msg, error)) (*dns.Msg, error) {
	begin := time.Now()
	m, err := exchange()
	a := Attempt{Server: s.Server, Network: network, Duration: time.Since(begin), Reply: m, Err: err}
	c.cfg.Metrics.attempt(c.cfg.Zone, a)
	if c.cfg.Observe != nil {
		c.cfg.Observe(a)
	}
	return m, err
}
