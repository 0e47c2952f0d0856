// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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

// Bounds of what is done at once. Those that wait for somebody else, a server or a
// client, cannot take all the slots together: names of the cluster are answered over
// UDP whoever hangs.
const (
	// maxInFlight is how many queries are being answered.
	maxInFlight = 8192

	// maxForwarded is how many of them wait for other servers. One more gets
	// SERVFAIL.
	maxForwarded = 4096

	// maxStreamed is how many of them came over TCP, and may wait for a client that
	// does not read. One more waits in its connection.
	maxStreamed = 2048
)

// Config is what a Server serves.
type Config struct {
	Zone   *zone.Zone // nil: the server is a cache on a node, and has none
	Domain fqdn.Name  // the cluster's
	TTL    uint32     // of the zone's records, and the longest for which autopath denies, in seconds

	Cache    *cache.Cache
	Upstream Exchange // as in Forwarding, until Use
	Stubs    []Stub
	Autopath Autopath

	// Returned reports whether a question was sent by us and came back, by way of
	// a server that forwards to us; it is refused. nil: none ever does.
	Returned func(dns.Question) bool

	// Lameduck is how long queries are still taken after Run was told to end,
	// while readiness already says no; Drain, how long those in flight may take
	// after that.
	Lameduck, Drain time.Duration

	Logger   *slog.Logger          // nil: no log
	Register prometheus.Registerer // nil: no metrics
}

// Server answers queries. In this order:
//
//  1. what is malformed, or of a kind that nobody here answers;
//  2. autopath: names below its suffix, and those with a search list, by walking along
//     the list through what follows here, or by an Expander that does;
//  3. names of the cluster, and reverse names of its addresses;
//  4. names in a stub domain, by the servers of that domain;
//  5. everything else by the upstream servers,
//
// where 4 and 5 ask the cache first. By UDP the most usual questions are answered
// before they come here, to the same effect; see quick.
type Server struct {
	cfg     Config
	search  autopath.Zone
	log     *slog.Logger
	metrics *metrics

	forwarding atomic.Pointer[Forwarding] // replaced as a whole, by Use
	asking     atomic.Int64               // questions of walks that others are being asked

	slots    chan struct{}  // one for each query in flight
	forwards chan struct{}  // one for each that waits for other servers
	running  sync.WaitGroup // queries in flight, and refreshes of the cache
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
	search, err := cfg.Autopath.complete(cfg.Domain)
	if err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, search: search, log: log, metrics: newMetrics(cfg.Register, cfg.Cache, onNode),
		slots: make(chan struct{}, maxInFlight), forwards: make(chan struct{}, maxForwarded),
	}
	s.Use(Forwarding{Upstream: cfg.Upstream, Stubs: cfg.Stubs})
	return s, nil
}

// Run answers what comes in through the sockets until ctx ends, which is no error.
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
	streams := newStreams()
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

// background runs f beside the query that caused it.
func (s *Server) background(ctx context.Context, f func(context.Context)) {
	s.running.Go(func() {
		defer s.contain()
		f(ctx)
	})
}

// contain keeps a fault of ours with the one packet that found it. It is deferred.
func (s *Server) contain() {
	if fault := recover(); fault != nil {
		s.metrics.panics.Inc()
		s.log.Error("answering a query panicked", "panic", fault, "stack", string(debug.Stack()))
	}
}

// start takes a slot and answers a packet in it; send gets the reply, nil if there
// is none to give. It waits for a slot, so that what is too much stays in the
// kernel's queue.
func (s *Server) start(ctx context.Context, packet []byte, via transport, client netip.Addr, send func(reply []byte)) {
	s.slots <- struct{}{}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		send(s.handle(ctx, packet, via, client))
	})
}

// handle returns the reply to a packet, nil if it must not be answered, or if a fault
// of ours was found.
func (s *Server) handle(ctx context.Context, packet []byte, via transport, client netip.Addr) []byte {
	reply, _ := s.respond(ctx, packet, via, client, false)
	return reply
}

// respond is handle for who may not be able to wait: atOnce it is not done if others have
// to be asked. It is the one place that counts.
func (s *Server) respond(ctx context.Context, packet []byte, via transport, client netip.Addr, atOnce bool) (reply []byte, done bool) {
	done = true // also if it panics
	defer s.contain()
	start := time.Now()
	q, refusal := parse(packet, via)
	if q == nil {
		if refusal == nil {
			s.metrics.dropped.Inc()
			return nil, true
		}
		s.metrics.observe(via, answer{source: fromHere, rcode: int(refusal[3] & 15)}, time.Since(start))
		return refusal, true
	}
	q.client = client
	if atOnce {
		q.atOnce = new(deferred)
	}
	a := s.answer(ctx, q)
	if a.pending {
		return nil, false
	}
	if atOnce {
		for _, c := range *q.atOnce {
			c.Inc()
		}
	}
	reply = q.pack(a)
	s.metrics.observe(via, a, time.Since(start))
	return reply, true
}

// answer follows the order on Server.
func (s *Server) answer(ctx context.Context, q *query) answer {
	if s.cfg.Returned != nil && s.cfg.Returned(*q.question()) {
		return answer{source: fromHere, rcode: dns.RcodeRefused}
	}
	if a, ok := s.expansion(ctx, q); ok {
		return a
	}
	if a, ok := s.cluster(ctx, q); ok {
		return a
	}
	return s.elsewhere(ctx, q)
}
