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

	LocalNames LocalNames

	// MaxConnections is the largest number of open TCP connections. At this limit a new
	// connection replaces an idle one. It is closed if no connection is idle. 0:
	// DefaultMaxConnections.
	MaxConnections int

	// MaxClientConnections is the largest number of open TCP connections of one address. At
	// this limit a new connection replaces an idle one of the address. 0:
	// DefaultMaxClientConnections.
	MaxClientConnections int

	// Limits bound the queries that wait for other servers.
	Limits Limits

	// DetectProbe reports whether the question is a loop detection probe of this server,
	// which came back through a server that forwards to it. The probe is refused.
	// DetectProbe is called for the type HINFO only. nil: no loop detection.
	DetectProbe func(dns.Question) bool

	// AnswerProbe returns the answer to a query of type HINFO by which a node cache checks that
	// queries reach it, or a replica detects loops, or nil for other names. nil: there are no
	// such queries.
	AnswerProbe func(name string) dns.RR

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
//  4. local names, which no other server has, such as localhost;
//  5. the cache;
//  6. a stub domain: the servers of the longest one that contains the name;
//  7. the upstream servers.
//
// The longest zone that contains a name wins: a stub domain within the zone is asked, and one
// within a local zone too. The same holds for the targets of aliases and for candidates.
type Server struct {
	cfg     Config
	search  autopath.Zone
	primary fqdn.Name // MNAME of the SOA records
	log     *slog.Logger
	metrics *metrics
	slots   slots
	streams streamLimits

	nodeCache bool

	forwarding atomic.Pointer[Forwarding] // replaced as a whole, by SetForwarding
	setting    sync.Mutex                 // held to replace forwarding
	running    sync.WaitGroup             // queries in flight, and refreshes of the cache

	questions   *questionRate
	kept        keptReplies
	local       localZones
	ignoredOnce sync.Once // for the log
}

// New returns a server. It returns an error if the Config is invalid.
func New(cfg Config) (*Server, error) {
	if cfg.Cache == nil {
		return nil, errors.New("no cache configured: set Config.Cache")
	}
	if cfg.MaxConnections < 0 {
		return nil, fmt.Errorf("MaxConnections %d: want 0 or more", cfg.MaxConnections)
	}
	if cfg.MaxClientConnections < 0 {
		return nil, fmt.Errorf("MaxClientConnections %d: want 0 or more", cfg.MaxClientConnections)
	}
	nodeCache := cfg.Zone == nil
	if err := cfg.Limits.setDefaults(nodeCache); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
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
		slots: newSlots(cfg.Limits), streams: newStreamLimits(cfg.Register), nodeCache: nodeCache,
		local:     newLocalZones(cfg.LocalNames),
		questions: newQuestionRate(cfg.Limits.SearchRate, cfg.Limits.SearchBurst),
	}
	s.metrics = newMetrics(cfg.Register, cfg.Cache, s.slots, nodeCache)
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
	streams := newStreams(cmp.Or(s.cfg.MaxConnections, DefaultMaxConnections),
		cmp.Or(s.cfg.MaxClientConnections, DefaultMaxClientConnections))
	for _, l := range sockets.tcp {
		serving.Go(func() { errs <- s.serveTCP(work, l, streams) })
	}
	var err error
	select {
	case err = <-errs:
	case <-ctx.Done():
		select {
		case err = <-errs: // without a socket, nothing is served in the lameduck time
		case <-time.After(s.cfg.Lameduck):
		}
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

// handle answers a packet: it is accept, with a packed reply. A reply without octets is not sent.
// It writes the reply into buf if the capacity suffices.
func (s *Server) handle(ctx context.Context, q *query, packet, buf []byte) (r reply, wait func(context.Context) reply) {
	defer s.recoverPanic()
	a, await, isQuery := s.accept(ctx, q, packet, buf)
	switch {
	case !isQuery:
		return reply{}, nil
	case await == nil:
		return q.reply(a, buf), nil
	}
	return reply{}, func(ctx context.Context) reply {
		defer s.recoverPanic()
		return q.reply(await(ctx), nil)
	}
}

// accept parses a packet and answers it. It overwrites q, except via, client and received, which
// the caller sets. If the answer depends on other servers, accept returns wait, which waits for
// them and which the caller must call: the query holds a slot. The caller must detach q before it
// reuses the packet's memory.
func (s *Server) accept(ctx context.Context, q *query, packet, buf []byte) (a answer, wait func(context.Context) answer, isQuery bool) {
	rcode, isQuery := q.parse(packet)
	switch {
	case !isQuery:
		s.metrics.dropped.Inc()
		return answer{}, nil, false
	case rcode != dns.RcodeSuccess:
		return answer{source: fromServer, rcode: rcode}, nil, true
	}
	a, wait = s.answer(ctx, q, buf)
	return a, wait, true
}

// answer returns the answer to a query, or a function that waits for it.
func (s *Server) answer(ctx context.Context, q *query, buf []byte) (answer, func(context.Context) answer) {
	res := s.resolve(ctx, q, buf)
	if res.wait == nil {
		return res.answer, nil
	}
	return s.admit(q.client, res)
}

// resolve tries the sources in the order documented on Server. It never blocks. Goroutines
// that it starts may run until ctx ends.
func (s *Server) resolve(ctx context.Context, q *query, buf []byte) result {
	if q.qtype == dns.TypeHINFO {
		if a, ok := s.answerProbe(q); ok {
			return result{answer: a}
		}
	}
	if r, ok := s.expandSearch(ctx, q, buf); ok {
		return r
	}
	if r, ok := s.answerFromZone(ctx, q, buf); ok {
		return r
	}
	return s.forward(ctx, q, buf)
}

// answerProbe answers a probe of this server. ok is false if q is not a probe.
func (s *Server) answerProbe(q *query) (a answer, ok bool) {
	name := q.owner()
	if s.cfg.DetectProbe != nil && s.cfg.DetectProbe(dns.Question{Name: name, Qtype: q.qtype, Qclass: dns.ClassINET}) {
		return answer{source: fromServer, rcode: dns.RcodeRefused}, true
	}
	if s.cfg.AnswerProbe != nil {
		if rr := s.cfg.AnswerProbe(name); rr != nil {
			return answer{source: fromServer, answer: []dns.RR{rr}}, true
		}
	}
	return answer{}, false
}

// start calls wait in a goroutine, counts the reply to q that wait returns, and sends it.
func (s *Server) start(ctx context.Context, q *query, wait func(context.Context) reply, send func(wire []byte)) {
	s.running.Go(func() {
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
