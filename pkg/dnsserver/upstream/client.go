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

// Client forwards queries to a set of servers. All methods may be called concurrently.
// Create one with [New] and call [Client.Run].
type Client struct {
	cfg      Config
	servers  atomic.Pointer[[]*server] // replaced as a whole, under mu
	changed  chan struct{}             // capacity one: wakes Run after SetServers
	group    singleflight.Group        // by the wire form of the query
	inFlight atomic.Int64

	mu      sync.Mutex
	phase   phase
	conns   map[*streamConn]bool // open
	running sync.WaitGroup       // of conns
}

// phase is where a Client is in its life.
type phase uint8

const (
	beforeRun phase = iota
	inRun
	afterRun
)

// New returns a client of cfg.Servers. The error is about cfg.
func New(cfg Config) (*Client, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	c := &Client{cfg: cfg, changed: make(chan struct{}, 1), conns: map[*streamConn]bool{}}
	c.servers.Store(new([]*server))
	c.SetServers(cfg.Servers)
	return c, nil
}

// SetServers replaces the servers. A server that stays in the list keeps its health and
// its connection; queries in flight are not affected. Duplicates are removed.
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
			c.cfg.Metrics.deleteSeries(prometheus.Labels{"zone": c.cfg.Zone, "server": s.Server.String()})
		}
	}
	c.wake()
}

// wake makes Run probe the servers.
func (c *Client) wake() {
	select {
	case c.changed <- struct{}{}:
	default: // Run is due to wake
	}
}

// Status is the state of a server.
type Status struct {
	Server  Server
	Down    bool // two or more consecutive failures: tried after the others
	Looping bool // in a forwarding loop: not used
}

// Status returns the state of all servers, in the order of the list.
func (c *Client) Status() []Status {
	var list []Status
	for _, s := range *c.servers.Load() {
		s.mu.Lock()
		list = append(list, Status{Server: s.Server, Down: s.failures >= maxFailures, Looping: s.looping})
		s.mu.Unlock()
	}
	return list
}

// Exchange forwards a query and returns the first conclusive reply. If there is none, it
// returns the first SERVFAIL, REFUSED or NOTIMP, or a truncated reply if TCP does not
// work. It returns an error if no server replied in time, and the error of ctx when
// that ends.
//
// Of query it forwards the question, RD, CD, DO and the options of Config.Options. The
// reply has the ID and the question of query. It has the server's OPT record and AD bit;
// the caller must clear AD unless its client set AD or DO (RFC 6840 section 5.8).
// Callers with equal queries share the records, and must not change them.
func (c *Client) Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	if len(query.Question) != 1 {
		return nil, fmt.Errorf("query has %d questions, want 1", len(query.Question))
	}
	q, err := newQuery(query, c.cfg.Options)
	if err != nil {
		return nil, fmt.Errorf("cannot pack query: %w", err)
	}
	flight := c.group.DoChan(string(q.wire), func() (_ any, err error) {
		defer c.recoverPanic(&err)
		// All callers share the flight: it continues after the first one has left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
		defer cancel()
		return c.resolve(ctx, q)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-flight:
		if r.Err != nil {
			return nil, r.Err
		}
		return copyFor(query, r.Val.(*dns.Msg)), nil
	}
}

// recoverPanic turns a panic into an error. A flight runs in a goroutine of its own, so
// no caller could recover it. It must be deferred.
func (c *Client) recoverPanic(err *error) {
	if v := recover(); v != nil {
		c.cfg.Logger.Error("panic in upstream exchange", "panic", v, "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic in upstream exchange: %v", v)
	}
}

// copyFor returns a copy of a shared reply with the ID, flags and question of query. The
// caller may append to its sections.
func copyFor(query, shared *dns.Msg) *dns.Msg {
	m := *shared
	m.Id, m.Authoritative = query.Id, false
	m.RecursionDesired, m.CheckingDisabled = query.RecursionDesired, query.CheckingDisabled
	m.Question = slices.Clone(query.Question)
	m.Answer, m.Ns, m.Extra = slices.Clip(m.Answer), slices.Clip(m.Ns), slices.Clip(m.Extra)
	return &m
}

// rounds is how often a server that does not reply is tried per query. A packet may
// have been lost.
const rounds = 2

// resolve tries the servers in order until a reply is conclusive.
func (c *Client) resolve(ctx context.Context, q *query) (*dns.Msg, error) {
	defer c.inFlight.Add(-1)
	if c.inFlight.Add(1) > int64(c.cfg.MaxConcurrent) {
		return nil, ErrBusy
	}
	all := *c.servers.Load()
	if len(all) == 0 {
		return nil, ErrNoServers
	}
	list := order(all, time.Now(), c.cfg.TryTimeout)
	if len(list) == 0 {
		return nil, ErrLoop
	}
	var fallback *dns.Msg
	var last error
	for range rounds {
		var unanswered []*server
		for _, s := range list {
			if ctx.Err() != nil {
				break
			}
			m, err := c.try(ctx, s, q)
			switch {
			case err != nil:
				last = fmt.Errorf("%v: %w", s.Server, err)
				unanswered = append(unanswered, s)
			case isConclusive(m):
				return m, nil
			case fallback == nil:
				fallback = m
			}
		}
		list = unanswered
	}
	if fallback != nil {
		return fallback, nil
	}
	return nil, fmt.Errorf("no upstream server replied: %w", last)
}

// isConclusive reports whether no further server is tried after the reply m. The rcodes
// are those after which the C libraries try the next server.
func isConclusive(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented:
		return false
	}
	return !m.Truncated
}

// try sends a query to one server and records the result in its health. If the server
// does not understand EDNS, it repeats the query without it (RFC 6891 section 7).
func (c *Client) try(ctx context.Context, s *server, q *query) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.TryTimeout)
	defer cancel()
	begin := time.Now()
	m, err := c.send(ctx, s, q, q.wire)
	if err == nil && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) && m.IsEdns0() == nil {
		m, err = c.send(ctx, s, q, q.withoutEDNS)
	}
	switch now := time.Now(); {
	case err == nil:
		s.recordReply(now)
	case q.hasOptions && s.repliedSince(begin): // a domain of the search list is dead, not the server
	default:
		s.recordFailure(now, err)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// send transmits a query over the transport of the server. Over UDP it falls back to
// TCP if the reply is truncated, or the query longer than udpSize. If TCP does not work
// either, it returns the truncated reply: some resolvers can use it, and a firewall is
// not a failure of the server.
func (c *Client) send(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	overStream := func() (*dns.Msg, error) { return c.exchangeStream(ctx, s, q, wire) }
	switch {
	case s.TLS:
		return c.measure(s, "tls", overStream)
	case s.TCP || len(wire) > udpSize:
		return c.measure(s, "tcp", overStream)
	}
	m, err := c.measure(s, "udp", func() (*dns.Msg, error) { return exchangeUDP(ctx, s.Server, q, wire) })
	if !errors.Is(err, errUseTCP) {
		return m, err
	}
	whole, err := c.measure(s, "tcp", overStream)
	if err != nil && m != nil {
		return m, nil
	}
	return whole, err
}

// measure calls exchange and counts the attempt.
func (c *Client) measure(s *server, network string, exchange func() (*dns.Msg, error)) (*dns.Msg, error) {
	begin := time.Now()
	m, err := exchange()
	c.cfg.Metrics.observe(attempt{
		zone: c.cfg.Zone, server: s.Server, network: network,
		duration: time.Since(begin), reply: m, err: err,
	})
	return m, err
}
