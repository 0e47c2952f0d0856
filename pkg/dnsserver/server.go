// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Config is the configuration of a Server.
type Config struct {
	Zone   *zone.Zone // nil: the server is a node cache and has no zone
	Domain fqdn.Name  // the cluster domain
	TTL    uint32     // of the zone's records, and the upper limit of autopath's negative TTL, in seconds

	Cache    *cache.Cache
	Upstream Exchange // Upstream and Stubs of the first Forwarding
	Stubs    []Stub
	Autopath Autopath

	// MaxConnections is the largest number of open TCP connections. At this limit a new
	// connection replaces an idle one. It is closed if no connection is idle. 0:
	// DefaultMaxConnections.
	MaxConnections int

	// DetectProbe reports whether the question is a loop detection probe of this server,
	// which came back through a server that forwards to it. The probe is refused.
	// DetectProbe is called for the type HINFO only. nil: no loop detection.
	DetectProbe func(dns.Question) bool

	// Lameduck is how long queries are still answered after the context of Run has
	// ended, while readiness already fails. Drain is how long queries in flight may
	// take after that.
	Lameduck, Drain time.Duration

	Logger   *slog.Logger          // nil: no log
	Register prometheus.Registerer // nil: no metrics
}

// Server answers queries. It tries these sources, in this order:
//
//  1. rejection of malformed queries, and of opcodes, classes and types that are not
//     supported;
//  2. autopath: a name below the autopath suffix, or a query with a search list, is
//     answered by trying the candidates through the sources below, or by the Expander;
//  3. the zone: the cluster's names, and reverse names of its addresses;
//  4. the cache;
//  5. a stub domain: the servers of the longest one that contains the name;
//  6. the upstream servers.
type Server struct {
	cfg     Config
	search  autopath.Zone
	primary fqdn.Name // MNAME of the SOA records
	log     *slog.Logger
	metrics *metrics
	limits  limits

	forwarding atomic.Pointer[Forwarding] // replaced as a whole, by SetForwarding
	running    sync.WaitGroup             // queries in flight, and refreshes of the cache
}

// limits bound the work in flight. maxForwarded and maxStreamed together are less than
// maxInFlight, so that queries that wait for other servers or for slow TCP clients never
// stop the reading of UDP queries for the cluster's names.
type limits struct {
	inFlight  semaphore // queries that wait; at the limit the server stops reading
	forwarded semaphore // queries that wait for other servers; an excess query gets SERVFAIL
	streamed  semaphore // queries over TCP that wait; at the limit their connections are not read
	expanded  semaphore // subqueries of expansions that wait for other servers; an excess one counts as failed
}

const (
	maxInFlight  = 8192
	maxForwarded = 4096
	maxStreamed  = 2048
	maxExpanded  = 2048
)

// semaphore is a counting semaphore. Its capacity is the limit.
type semaphore chan struct{}

func (s semaphore) acquire() { s <- struct{}{} }
func (s semaphore) release() { <-s }

func (s semaphore) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// New returns a server. It returns an error if the Config is invalid.
func New(cfg Config) (*Server, error) {
	if cfg.Cache == nil {
		return nil, errors.New("no cache configured: set Config.Cache")
	}
	if cfg.MaxConnections < 0 {
		return nil, fmt.Errorf("MaxConnections %d: want 0 or more", cfg.MaxConnections)
	}
	nodeCache := cfg.Zone == nil
	if nodeCache {
		cfg.Zone = zone.Empty()
	}
	search, err := cfg.Autopath.setDefaults(cfg.Domain)
	if err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, search: search, primary: zone.PrimaryName(cfg.Domain), log: log,
		metrics: newMetrics(cfg.Register, cfg.Cache, nodeCache),
		limits: limits{
			inFlight: make(semaphore, maxInFlight), forwarded: make(semaphore, maxForwarded),
			streamed: make(semaphore, maxStreamed), expanded: make(semaphore, maxExpanded),
		},
	}
	s.SetForwarding(Forwarding{Upstream: cfg.Upstream, Stubs: cfg.Stubs})
	return s, nil
}

// Run answers the queries that the sockets receive until ctx ends; it then returns nil.
// It closes the sockets.
func (s *Server) Run(ctx context.Context, sockets *Sockets) error {
	// Queries outlive ctx by the lameduck and drain times.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	errs := make(chan error, len(sockets.udp)+len(sockets.tcp))
	var serving sync.WaitGroup
	for _, conn := range sockets.udp {
		serving.Go(func() { errs <- s.serveUDP(work, conn) })
	}
	streams := newStreams(cmp.Or(s.cfg.MaxConnections, DefaultMaxConnections))
	for _, l := range sockets.tcp {
		serving.Go(func() { errs <- s.serveTCP(work, l, streams) })
	}
	var err error
	select {
	case err = <-errs:
	case <-ctx.Done():
		time.Sleep(s.cfg.Lameduck)
	}
	sockets.stopReading()
	streams.finish()
	drainTimer := time.AfterFunc(s.cfg.Drain, func() {
		cancel()
		streams.close()
	})
	serving.Wait()
	s.running.Wait()
	drainTimer.Stop()
	sockets.Close()
	if err != nil {
		return fmt.Errorf("serving DNS: %w", err)
	}
	return nil
}

// handle answers a packet. It overwrites q, except via, client and received, which the caller
// sets. It writes the reply into buf if the capacity suffices. A reply without octets is not
// sent. If the answer depends on other servers, handle returns wait, which waits for them. The
// caller must then detach q before it reuses the packet's memory.
func (s *Server) handle(ctx context.Context, q *query, packet, buf []byte) (r reply, wait func(context.Context) reply) {
	defer s.recoverPanic()
	rcode, isQuery := q.parse(packet)
	switch {
	case !isQuery:
		s.metrics.dropped.Inc()
		return reply{}, nil
	case rcode != dns.RcodeSuccess:
		return q.reply(answer{source: fromServer, rcode: rcode}, buf), nil
	}
	res := s.resolve(ctx, q, buf)
	if res.wait == nil {
		return q.reply(res.answer, buf), nil
	}
	await := res.wait // to capture res would allocate it on the fast path, too
	return reply{}, func(ctx context.Context) reply {
		defer s.recoverPanic()
		return q.reply(await(ctx), nil)
	}
}

// resolve tries the sources in the order documented on Server. It never blocks. Goroutines
// that it starts may run until ctx ends.
func (s *Server) resolve(ctx context.Context, q *query, buf []byte) result {
	if q.qtype == dns.TypeHINFO && s.cfg.DetectProbe != nil &&
		s.cfg.DetectProbe(dns.Question{Name: q.owner(), Qtype: q.qtype, Qclass: dns.ClassINET}) {
		return result{answer: answer{source: fromServer, rcode: dns.RcodeRefused}}
	}
	if r, ok := s.expandSearch(ctx, q, buf); ok {
		return r
	}
	if r, ok := s.answerFromZone(ctx, q, buf); ok {
		return r
	}
	return s.forward(ctx, q, buf)
}

// start calls wait in a goroutine, counts the reply to q that wait returns, and sends it. It
// blocks until limits.inFlight allows another query, so that excess queries stay in the
// socket's receive buffer.
func (s *Server) start(ctx context.Context, q *query, wait func(context.Context) reply, send func(wire []byte)) {
	s.limits.inFlight.acquire()
	s.running.Go(func() {
		defer s.limits.inFlight.release()
		r := wait(ctx)
		s.metrics.observeReply(q, r)
		send(r.wire)
	})
}

// goTracked calls f in a goroutine, which Run waits for.
func (s *Server) goTracked(ctx context.Context, f func(context.Context)) {
	s.running.Go(func() {
		defer s.recoverPanic()
		f(ctx)
	})
}

// recoverPanic logs and counts a panic, so that it costs one packet. It is deferred.
func (s *Server) recoverPanic() {
	if fault := recover(); fault != nil {
		s.metrics.panics.Inc()
		s.log.Error("panic while answering a query", "panic", fault, "stack", string(debug.Stack()))
	}
}
