// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
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
	Zone   *zone.Zone // the cluster zone; nil: the server is a node cache
	Domain fqdn.Name  // the cluster domain; required

	// TTL is the TTL, in seconds, of the records of the zone and of autopath, except
	// dns-version. Their negative TTL is at most as large. 0: clients do not cache them.
	TTL uint32

	Cache *cache.Cache // of the replies of other servers; required

	// Upstream and Stubs are the initial Forwarding.Upstream and Forwarding.Stubs, until
	// SetForwarding is called. The zero values: names outside the zone get REFUSED.
	Upstream Exchange
	Stubs    []Stub

	Autopath Autopath

	// DNS64Prefix is the prefix of the AAAA records that are made from A records (RFC 6147), from ParseDNS64Prefix. They are
	// for clients that reach IPv4 through a NAT64 gateway. The zero value: none are made.
	DNS64Prefix netip.Prefix

	// LocalNames makes the server answer names outside the cluster zone itself: localhost, names that no
	// public server has, and the reverse names of loopback, link-local and documentation addresses. A stub
	// domain wins over a local zone that is shorter or has the same name. A reverse zone of the cluster wins
	// over all local zones.
	LocalNames bool

	// Limits bound what clients can use of the server. The zero value: the defaults.
	Limits Limits

	Statistics ClientStatistics // that Clients returns

	// DetectProbe reports whether this server has sent the question to an upstream server, as a probe. If so, the
	// upstream server is in a forwarding loop: it has sent the probe back. The probe gets REFUSED. DetectProbe is
	// called for the type HINFO only. nil: no loop detection.
	DetectProbe func(dns.Question) bool

	// AnswerProbe returns the answer to a probe for which DetectProbe returns false, or nil if the name is not that
	// of a probe. Such probes are the loop probes of other replicas of this server, and the probes by which a node
	// cache checks that queries reach it. AnswerProbe is called for the type HINFO only. nil: no probe is answered.
	AnswerProbe func(name string) dns.RR

	// Paused reports whether queries do not reach this server, or did not a few seconds ago, as the probes of a node cache
	// show. Replies of other servers may be lost, too: a query without one is refused. nil: never.
	Paused func() bool

	// Chaos is the TXT record of version.bind and version.server in class CHAOS, at most 255 octets. hostname.bind and
	// id.server then have the name of the host. "": queries of this class get REFUSED.
	Chaos string

	// Lameduck is how long queries are still answered after the context of Run has ended, while readiness already
	// fails. Drain is how long queries in flight may take after that. 0: no time.
	Lameduck, Drain time.Duration

	Logger   *slog.Logger          // nil: no log
	Register prometheus.Registerer // nil: no metrics
}

// Server answers queries. It tries these sources, in this order:
//
//  1. rejection of malformed queries, and of opcodes, classes and types that are not
//     supported; answers about the server (Config.Chaos) and to probes (Config.DetectProbe, Config.AnswerProbe);
//  2. autopath: a name below the autopath domain, or a query with a search list, is
//     answered by trying the candidates in the sources below, or by Forwarding.Expander;
//  3. the rules of SetRules;
//  4. the hosts of SetHosts;
//  5. the zone: the cluster zone, and reverse names of its addresses;
//  6. local names, which no other server has, such as localhost;
//  7. the cache;
//  8. a stub domain: the servers of the longest one that contains the name;
//  9. the upstream servers.
//
// With DNS64Prefix an answer without AAAA records is made from the answer of the same sources for type A.
//
// A rewrite changes the name before source 3, except a name of the autopath domain. Rules and hosts win over all zones.
// Of these the longest one that contains a name wins: names of a stub domain are forwarded to its
// servers, even if the stub domain is within the cluster zone or a local zone. The same holds
// for the targets of aliases and for candidates. The autopath domain wins over all stub domains.
type Server struct {
	cfg      Config
	autopath autopath.Zone
	primary  fqdn.Name // MNAME of the SOA records
	log      *slog.Logger
	metrics  *metrics
	queries  *limiter // of the queries that wait for other servers
	streams  *streams
	tallies  *tallies
	waited   *tally // of the replies that are not sent by a reader of a UDP socket

	nodeCache bool

	hosts        atomic.Pointer[Hosts]      // nil: none
	queryLog     atomic.Pointer[QueryLog]   // nil: none
	rules        atomic.Pointer[Rules]      // nil: none
	forwarding   atomic.Pointer[Forwarding] // replaced as a whole, by SetForwarding
	forwardingMu sync.Mutex                 // held to replace forwarding
	running      sync.WaitGroup             // queries in flight, and prefetches of the cache

	receiveDrops   receiveDrops
	replies        replyCache
	local          localZones
	logIgnoredOnce sync.Once // for the warning that the cluster DNS ignores search lists
}

// New returns a server and registers its metrics. Its error is about Config.Domain. It
// panics if the metrics are registered already, as prometheus does.
func New(cfg Config) (*Server, error) {
	nodeCache := cfg.Zone == nil
	if nodeCache {
		cfg.Zone = zone.Empty()
	}
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.Autopath.HostSuffixes = cfg.Autopath.HostSuffixes[:min(len(cfg.Autopath.HostSuffixes), MaxHostSuffixes)]
	autopathZone, err := autopath.NewZone(cfg.Domain)
	if err != nil {
		return nil, fmt.Errorf("autopath: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := newMetrics(cfg.Register, nodeCache)
	s := &Server{
		cfg: cfg, autopath: autopathZone, primary: zone.PrimaryName(cfg.Domain), log: log, metrics: m,
		queries: newQueryLimiter(cfg.Limits), streams: newStreams(cfg.Limits, m), nodeCache: nodeCache,
		tallies: newTallies(cfg.Statistics, cfg.Domain), local: newLocalZones(cfg.LocalNames),
	}
	s.waited = s.tallies.add()
	s.registerState(cfg.Register)
	s.SetForwarding(Forwarding{Upstream: cfg.Upstream, Stubs: cfg.Stubs})
	return s, nil
}

// Run answers the queries that the sockets receive. After ctx has ended, it continues for Config.Lameduck, completes
// the queries in flight within Config.Drain, closes the sockets and returns nil. It returns an error if a socket can
// no longer be read, for example because others have closed it. Run must be called once.
func (s *Server) Run(ctx context.Context, sockets *Sockets) error {
	// Queries outlive ctx by the lameduck and drain times.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	errs := make(chan error, len(sockets.udp)+len(sockets.tcp))
	var serving sync.WaitGroup
	s.receiveDrops.setSockets(sockets.udp)
	for _, conn := range sockets.udp {
		serving.Go(func() { errs <- s.serveUDP(work, conn) })
	}
	for _, l := range sockets.tcp {
		serving.Go(func() { errs <- s.serveTCP(work, l) })
	}
	var err error
	select {
	case err = <-errs:
	case <-ctx.Done():
		select {
		case err = <-errs: // the lameduck time ends early if a socket fails
		case <-time.After(s.cfg.Lameduck):
		}
	}
	sockets.stopReading()
	s.streams.stopReading()
	drainTimer := time.AfterFunc(s.cfg.Drain, func() {
		cancel()
		s.streams.close()
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

// Clients returns who asked what in the last 12 to 24 hours, or since the start.
func (s *Server) Clients() ClientReport { return s.tallies.report(time.Now()) }

// hostDomains returns the search domains of the nodes, as far as the server knows them.
func (s *Server) hostDomains() []fqdn.Name {
	if f := s.forwarding.Load(); len(f.HostSuffixes) > 0 {
		return f.HostSuffixes
	}
	return s.cfg.Autopath.HostSuffixes
}

// handle returns the reply to a packet, or a function that waits for the reply. A reply without
// octets is not sent. handle writes the reply into buf if the capacity suffices. The caller sets
// q.via, q.client and q.received beforehand, and must call wait, which releases the slot of q.
// The caller must detach q before it reuses the packet's memory.
func (s *Server) handle(ctx context.Context, q *query, packet, buf []byte) (
	r reply, wait func(context.Context) reply) {
	defer s.recoverPanic()
	a, await, isQuery := s.answerPacket(ctx, q, packet, buf)
	switch {
	case !isQuery:
		return reply{}, nil
	case await == nil:
		return s.replyOverUDP(q, a, buf), nil
	}
	return reply{}, func(ctx context.Context) reply {
		defer s.recoverPanic()
		return s.replyOverUDP(q, await(ctx), nil)
	}
}

// answerPacket parses a packet into q and answers it, see answer. If the packet is not a query, or answering it
// panics, isQuery is false.
func (s *Server) answerPacket(ctx context.Context, q *query, packet, buf []byte) (
	a answer, wait func(context.Context) answer, isQuery bool) {
	defer s.recoverPanic()
	if !q.parse(packet) {
		s.metrics.dropped.Inc()
		return answer{}, nil, false
	}
	a, wait = s.answer(ctx, q, buf)
	return a, wait, true
}

// answer tries the sources in the order documented on Server. It never blocks. If the answer depends on other
// servers, it acquires a slot and returns wait, see admit. Goroutines that answer starts may run until ctx ends.
func (s *Server) answer(ctx context.Context, q *query, buf []byte) (a answer, wait func(context.Context) answer) {
	if q.rejectCode != dns.RcodeSuccess {
		return s.answerRejected(q), nil
	}
	if q.qtype == dns.TypeHINFO {
		if a, ok := s.answerProbe(q); ok {
			return a, nil
		}
	}
	r, ok := s.expandSearch(ctx, q)
	if !ok {
		r = s.answerName(ctx, q, buf)
	}
	if s.translates(q) {
		r = s.translate(ctx, q, r)
	}
	if r.wait == nil {
		return r.answer, nil
	}
	return s.admit(q.client, r)
}

// answerName tries the sources that do not depend on a search list. An answer is large: it is copied once for each return.
func (s *Server) answerName(ctx context.Context, q *query, buf []byte) (r result) {
	ok := false
	if rules := s.rules.Load(); rules != nil {
		matching := rules.of(q.name)
		if matching.rewrite != nil && !q.rewritten {
			return s.answerRewritten(ctx, q, matching)
		}
		if denied := rules.deny(q); denied != nil {
			return result{answer: *denied}
		}
		if rule := matching.answerFor(q.qtype); rule != nil {
			return s.applyAnswer(ctx, q, rule)
		}
	}
	if h := s.hosts.Load(); h != nil {
		if r.answer, ok = h.answer(q); ok {
			return r
		}
	}
	if r, ok = s.answerFromZone(ctx, q, buf); ok {
		return r
	}
	return s.forward(ctx, q)
}

// answerRejected answers a query that is rejected, or is about this server (RFC 4892 section 2).
func (s *Server) answerRejected(q *query) answer {
	a := answer{source: fromServer, rcode: q.rejectCode}
	if q.rejectCode != dns.RcodeRefused || s.cfg.Chaos == "" || q.qtype != dns.TypeTXT || q.class() != dns.ClassCHAOS {
		return a
	}
	text := s.cfg.Chaos
	switch q.name {
	case "\x07version\x04bind\x00", "\x07version\x06server\x00":
	case "\x08hostname\x04bind\x00", "\x02id\x06server\x00":
		text, _ = os.Hostname()
	default:
		return a
	}
	h := dns.RR_Header{Name: q.presentationName(), Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS}
	return answer{source: fromServer, answers: []dns.RR{&dns.TXT{Hdr: h, Txt: []string{text}}}}
}

// answerProbe answers a probe, with REFUSED if this server has sent it. ok is false if q is not a probe.
func (s *Server) answerProbe(q *query) (a answer, ok bool) {
	name := q.presentationName()
	question := dns.Question{Name: name, Qtype: q.qtype, Qclass: dns.ClassINET}
	if s.cfg.DetectProbe != nil && s.cfg.DetectProbe(question) {
		return answer{source: fromServer, rcode: dns.RcodeRefused}, true
	}
	if s.cfg.AnswerProbe != nil {
		if rr := s.cfg.AnswerProbe(name); rr != nil {
			return answer{source: fromServer, answers: []dns.RR{rr}}, true
		}
	}
	return answer{}, false
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
