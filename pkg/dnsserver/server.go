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
	Upstream Exchange // as in Forwarding, until SetForwarding is called
	Stubs    []Stub
	Autopath Autopath

	// MaxConnections is how many TCP connections are open at once. For one more, an idle
	// one is closed. 0: DefaultMaxConnections.
	MaxConnections int

	// Returned reports whether this server sent the question itself, and received it
	// back from a server that forwards to it. Such a query is refused. It is called
	// for the type HINFO only, which loop detection uses. nil: no loop detection.
	Returned func(dns.Question) bool

	// Lameduck is how long queries are still answered after the context of Run has
	// ended, while readiness already fails. Drain is how long queries in flight may
	// take after that.
	Lameduck, Drain time.Duration

	Logger   *slog.Logger          // nil: no log
	Register prometheus.Registerer // nil: no metrics
}

// Server answers queries. It tries these sources, in this order:
//
//  1. rejection: what is malformed, or of an operation, class or type that is not
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

// limits bound the work in flight. Queries that wait for a server or for a client never
// take all of inFlight: the cluster's names are always answered over UDP.
type limits struct {
	inFlight  limit // queries that wait; reading stops until one is done
	forwarded limit // queries that wait for other servers; one more gets SERVFAIL
	streamed  limit // queries over TCP that wait; one more waits in its connection
	expanded  limit // questions of search lists that wait for other servers; one more counts as failed
}

const (
	maxInFlight  = 8192
	maxForwarded = 4096
	maxStreamed  = 2048
	maxWalked    = 2048
)

// limit bounds how much work of one kind is in flight: one element for each.
type limit chan struct{}

func (l limit) acquire() { l <- struct{}{} }
func (l limit) release() { <-l }

func (l limit) tryAcquire() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// New returns a server. The error is about the Config.
func New(cfg Config) (*Server, error) {
	if cfg.Cache == nil {
		return nil, errors.New("a server needs a cache")
	}
	onNode := cfg.Zone == nil
	if onNode {
		cfg.Zone = zone.Empty()
	}
	search, err := cfg.Autopath.withDefaults(cfg.Domain)
	if err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, search: search, primary: zone.PrimaryName(cfg.Domain), log: log,
		metrics: newMetrics(cfg.Register, cfg.Cache, onNode),
		limits: limits{
			inFlight: make(limit, maxInFlight), forwarded: make(limit, maxForwarded),
			streamed: make(limit, maxStreamed), expanded: make(limit, maxWalked),
		},
	}
	s.SetForwarding(Forwarding{Upstream: cfg.Upstream, Stubs: cfg.Stubs})
	return s, nil
}

// Run answers the queries that the sockets receive until ctx ends; it then returns nil.
// It closes the sockets.
func (s *Server) Run(ctx context.Context, sockets *Sockets) error {
	// Queries outlive ctx by the drain time.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	failed := make(chan error, len(sockets.udp)+len(sockets.tcp))
	var serving sync.WaitGroup
	for _, conn := range sockets.udp {
		serving.Go(func() { failed <- s.serveUDP(work, conn) })
	}
	streams := newStreams(cmp.Or(s.cfg.MaxConnections, DefaultMaxConnections))
	for _, l := range sockets.tcp {
		serving.Go(func() { failed <- s.serveTCP(work, l, streams) })
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		time.Sleep(s.cfg.Lameduck)
	}
	sockets.stopReading()
	streams.finish()
	late := time.AfterFunc(s.cfg.Drain, func() {
		cancel()
		streams.close()
	})
	serving.Wait()
	s.running.Wait()
	late.Stop()
	sockets.Close()
	if err != nil {
		return fmt.Errorf("serving DNS: %w", err)
	}
	return nil
}

// handle answers a packet. q is overwritten; its via, client and received are set by the
// caller. The reply is written into buf if that has room. If other servers have to be asked,
// handle returns how to wait for them, and q must then be detached before it returns to its
// socket. A reply without octets is not sent.
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
	resolved := s.resolve(ctx, q, buf)
	if resolved.wait == nil {
		return q.reply(resolved.answer, buf), nil
	}
	await := resolved.wait
	return reply{}, func(ctx context.Context) reply {
		defer s.recoverPanic()
		return q.reply(await(ctx), nil)
	}
}

// resolve follows the order documented on Server. It never blocks. What continues in the
// background lives as long as ctx.
func (s *Server) resolve(ctx context.Context, q *query, buf []byte) result {
	if q.qtype == dns.TypeHINFO && s.cfg.Returned != nil &&
		s.cfg.Returned(dns.Question{Name: q.owner(), Qtype: q.qtype, Qclass: dns.ClassINET}) {
		return result{answer: answer{source: fromServer, rcode: dns.RcodeRefused}}
	}
	if r, ok := s.searched(ctx, q, buf); ok {
		return r
	}
	if r, ok := s.fromZone(ctx, q, buf); ok {
		return r
	}
	return s.forward(ctx, q, buf)
}

// start runs wait, for which the reply to q has to wait, and sends and counts the reply. It
// blocks until limits.inFlight allows one more query, so that an excess of them stays in the
// kernel's queue.
func (s *Server) start(ctx context.Context, q *query, wait func(context.Context) reply, send func(wire []byte)) {
	s.limits.inFlight.acquire()
	s.running.Go(func() {
		defer s.limits.inFlight.release()
		r := wait(ctx)
		s.metrics.observeSent(q, r)
		send(r.wire)
	})
}

// background runs f beside the query that caused it.
func (s *Server) background(ctx context.Context, f func(context.Context)) {
	s.running.Go(func() {
		defer s.recoverPanic()
		f(ctx)
	})
}

// recoverPanic logs and counts a panic, so that it costs one packet. It is deferred.
func (s *Server) recoverPanic() {
	if fault := recover(); fault != nil {
		s.metrics.panics.Inc()
		s.log.Error("answering a query panicked", "panic", fault, "stack", string(debug.Stack()))
	}
}
