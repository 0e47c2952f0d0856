// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Client forwards queries to a set of servers. All methods may be called concurrently. A Client does not bound the
// number of concurrent queries: its callers must. Create a Client with [New] and call [Client.Run].
type Client struct {
	cfg     Config
	servers atomic.Pointer[[]*server] // replaced as a whole, under mu
	changed chan struct{}             // capacity one: wakes Run after SetServers
	failed  chan struct{}             // capacity one: wakes Run after a query without a reply
	group   group
	room    *semaphore.Weighted // for long replies, see maxLong
	series  sync.RWMutex        // held while a server's metrics change, and for writing while they are deleted

	mu      sync.Mutex
	phase   phase
	drains  map[*func()]bool // end the sockets and connections, see start
	running sync.WaitGroup   // of sockets and connections, and goroutines that probe servers
	run     context.Context  // the context of Run while it is running

	turns atomic.Uint64 // queries, for RoundRobin
}

// phase says whether Run has begun or returned.
type phase uint8

const (
	beforeRun phase = iota
	inRun
	afterRun
)

// New returns a client of cfg.Servers.
func New(cfg Config) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, changed: make(chan struct{}, 1), failed: make(chan struct{}, 1), drains: map[*func()]bool{},
		room: semaphore.NewWeighted(maxLong)}
	c.servers.Store(new([]*server))
	c.SetServers(cfg.Servers)
	return c
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
			servers = append(servers, &server{Server: want, log: c.cfg.Logger, created: time.Now()})
		}
	}
	c.servers.Store(&servers)
	c.series.Lock()
	defer c.series.Unlock()
	for _, s := range old {
		if !slices.Contains(servers, s) {
			c.cfg.Metrics.deleteSeries(prometheus.Labels{"zone": c.cfg.Zone, "server": s.Server.String()})
		}
	}
	wake(c.changed)
}

// wake wakes Run. It is a no-op if Run has not yet received the previous signal.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// Status is the state of a server.
type Status struct {
	Server Server

	// Down is set after two or more consecutive failures. A server that was silent while one
	// query waited is tried last and probed, too, but is not Down: it may only be slow.
	Down bool

	Looping bool // in a forwarding loop: not used
}

// Status returns the state of all servers, in the order of the list.
func (c *Client) Status() []Status {
	var list []Status
	for _, s := range *c.servers.Load() {
		list = append(list, Status{Server: s.Server, Down: s.isDown(), Looping: s.looping.Load()})
	}
	return list
}

// Exchange forwards a query and returns the first conclusive reply. If there is none, it returns the first SERVFAIL,
// REFUSED or NOTIMP, or a truncated reply if TCP does not work. It returns an error if no server replied in time,
// [ErrMalformed] if a reply was malformed, and the error of ctx when that ends.
//
// It forwards the question, RD, CD and DO of query, and the options in Config.Options. The reply has the ID and the
// question of query. It has the server's OPT record and AD bit; the caller must clear AD unless its client set AD or
// DO (RFC 6840 section 5.8). Callers with equal queries share the records, and must not change them.
func (c *Client) Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	if len(query.Question) != 1 {
		return nil, fmt.Errorf("query has %d questions, want 1", len(query.Question))
	}
	q, err := newQuery(query, c.cfg.Options)
	if err != nil {
		return nil, fmt.Errorf("cannot pack query: %w", err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, errSilent)
	defer cancel()
	m, err := c.group.do(limited, string(q.wire), func() (_ *dns.Msg, err error) {
		defer c.recoverPanic(&err)
		return c.resolve(limited, q)
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	reply := *m // shared
	reply.Id, reply.Authoritative = query.Id, false
	reply.RecursionDesired, reply.CheckingDisabled = query.RecursionDesired, query.CheckingDisabled
	reply.Question = slices.Clone(query.Question)
	reply.Answer, reply.Ns, reply.Extra = slices.Clip(m.Answer), slices.Clip(m.Ns), slices.Clip(m.Extra) // the caller may append
	return &reply, nil
}

// errSilent is the cause of the end of a context by a timeout of the Client, not by the deadline of a
// caller: the server was silent.
var errSilent = errors.New("no reply in time")

// errPanic is the error of a query whose exchange panicked.
var errPanic = errors.New("panic in upstream exchange")

// recoverPanic turns a panic into an error. A flight and a try run in goroutines of their
// own, so no caller could recover it. It must be deferred.
func (c *Client) recoverPanic(err *error) {
	if v := recover(); v != nil {
		c.cfg.Logger.Error("panic in upstream exchange", "panic", v, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w: %v", errPanic, v)
	}
}

// resolve tries the servers until a reply is conclusive.
func (c *Client) resolve(ctx context.Context, q *query) (*dns.Msg, error) {
	all := *c.servers.Load()
	if len(all) == 0 {
		return nil, ErrNoServers
	}
	list := c.order(all)
	if len(list) == 0 {
		return nil, ErrLoop
	}
	r := &race{
		try:        func(ctx context.Context, s *server) (*dns.Msg, error) { return c.try(ctx, s, q) },
		markSilent: c.markSilent,
	}
	m, err := r.run(ctx, list)
	if err != nil {
		wake(c.failed) // the reason may be a loop
	}
	return m, err
}

// try sends a query to one server and records the result in its health. If the server
// does not understand EDNS, it repeats the query without it (RFC 6891 section 7).
func (c *Client) try(ctx context.Context, s *server, q *query) (_ *dns.Msg, err error) {
	defer c.recoverPanic(&err)
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.TryTimeout, errSilent)
	defer cancel()
	begin := time.Now()
	m, err := c.send(ctx, s, q, q.wire)
	if err == nil && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) && m.IsEdns0() == nil {
		m, err = c.send(ctx, s, q, q.withoutEDNS())
	}
	lacksResource := func(n syscall.Errno) bool { return errors.Is(err, n) }
	if slices.ContainsFunc([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}, lacksResource) {
		err = fmt.Errorf("%w: %w", ErrNoResources, err)
	}
	switch now := time.Now(); {
	case err == nil, errors.Is(err, ErrMalformed): // the server has replied
		s.recordReply(now)
	case errors.Is(err, ErrNoResources): // nothing was sent
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSilent): // overtaken by another server, or the callers have left
	case !q.recursion: // servers may drop such a query
	case q.hasOptions && s.repliedSince(begin): // a domain of the search list is dead, not the server
	default:
		s.recordFailure(now, err)
		c.probeIfDown(s)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// send transmits a query over the transport of the server. Over UDP it falls back to TCP if the reply is truncated,
// or the query longer than udpSize. If TCP does not work either, it returns the truncated reply: some resolvers can
// use it, and a firewall is not a failure of the server.
func (c *Client) send(ctx context.Context, s *server, q *query, wire []byte) (*dns.Msg, error) {
	overStream := func() (*dns.Msg, error) { return c.exchangeStream(ctx, s, q, wire) }
	switch {
	case s.TLS:
		return c.measure(ctx, s, "tls", overStream)
	case s.TCP || len(wire) > udpSize:
		return c.measure(ctx, s, "tcp", overStream)
	}
	m, err := c.measure(ctx, s, "udp", func() (*dns.Msg, error) { return c.exchangeUDP(ctx, s, q, wire) })
	if !errors.Is(err, errUseTCP) {
		return m, err
	}
	whole, err := c.measure(ctx, s, "tcp", overStream)
	if err != nil && m != nil && !errors.Is(err, ErrMalformed) {
		return m, nil
	}
	return whole, err
}

// measure calls exchange and counts the attempt, unless SetServers has removed the server meanwhile: the series
// of the server are deleted then, and must not begin again.
func (c *Client) measure(ctx context.Context, s *server, network string, exchange func() (*dns.Msg, error)) (*dns.Msg, error) {
	begin := time.Now()
	m, err := exchange()
	c.series.RLock()
	defer c.series.RUnlock()
	if slices.Contains(*c.servers.Load(), s) {
		to := s.String()
		c.cfg.Metrics.attempts.WithLabelValues(c.cfg.Zone, to, network, outcome(ctx, m, err)).Inc()
		c.cfg.Metrics.duration.WithLabelValues(c.cfg.Zone, to).Observe(time.Since(begin).Seconds())
	}
	return m, err
}

// StubDomain is a zone with upstream servers of its own.
type StubDomain struct {
	Zone    string   // presentation format, lower case, rooted
	Servers []Server // may be none: the caller has the zone from elsewhere
}

// ParseStubDomain parses a zone, and its servers as [ParseServer] does.
func ParseStubDomain(zone string, servers []string) (d StubDomain, err error) {
	if d.Zone, err = parseZone(zone); err != nil {
		return StubDomain{}, err
	}
	for _, text := range servers {
		s, err := ParseServer(text)
		if err != nil {
			return StubDomain{}, err
		}
		if slices.Contains(d.Servers, s) {
			return StubDomain{}, fmt.Errorf("duplicate server %v", s)
		}
		d.Servers = append(d.Servers, s)
	}
	return d, nil
}

// parseZone returns the zone in the presentation format of the library, which escapes special characters such as ";".
func parseZone(zone string) (string, error) {
	if problem := fqdn.DomainProblem(zone); problem != "" {
		return "", fmt.Errorf("zone %q %s", zone, problem)
	}
	if zone == "." {
		return "", fmt.Errorf("zone %q contains every name: configure its servers as upstream servers", zone)
	}
	if strings.ContainsFunc(zone, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", fmt.Errorf("zone %q has a backslash or a character that is not printable ASCII", zone)
	}
	var wire [255]byte
	end, err := dns.PackDomainName(dns.CanonicalName(zone), wire[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("zone %q: %w", zone, err)
	}
	name, _, err := dns.UnpackDomainName(wire[:end], 0)
	return name, err
}
