// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Drain is the time that queries in flight get when the server stops: as long as an
// upstream server may take.
const Drain = 5 * time.Second

// openFunc opens the sockets of a server, and adds the tasks that the other server does not have. It is called
// when the forwarding of the first configuration is applied.
type openFunc func(context.Context, *daemon.Group) (*dnsserver.Sockets, error)

// run serves with configuration c until ctx ends, and then returns nil. It returns an error if a part of
// the server cannot start, or a task of the server fails. Standard output is for the query log.
func run[C any](
	ctx context.Context, p daemon.Process, source *config.Source[C], c C, s *server, open openFunc, resolverOf func(C) resolver,
) error {
	queries := newQueryLogWriter(p.Stdout, resolverOf(c).Queries.JSON, p.Metrics, p.Log)
	reloader := &daemon.Reloader[C]{
		Process: p, Source: source,
		Apply: func(next C) (daemon.Task, error) {
			r := resolverOf(next)
			background := s.apply(r.Forward)
			s.SetQueryLog(queries.apply(r.Queries))
			attrs := []any{"upstreams", r.Forward.Upstreams, "resolvConf", r.Forward.ResolvConf, "stubDomains", r.Forward.Stubs}
			if len(r.Forward.Cluster) > 0 {
				attrs = append(attrs, "clusterDNS", r.Forward.Cluster)
			}
			s.log.Info("configuration applied", attrs...)
			return background, nil
		},
	}
	if err := reloader.Start(c); err != nil {
		return err
	}
	var group daemon.Group
	sockets, err := open(ctx, &group)
	if err != nil {
		return err
	}
	defer sockets.HoldProcessor()()
	group.Tasks = append(group.Tasks,
		func(ctx context.Context) error { return s.Run(ctx, sockets) },
		func(ctx context.Context) error {
			<-ctx.Done()
			p.Log.Info("shutting down", "lameduck", s.lameduck)
			return nil
		})
	// Queries are forwarded in the lameduck time, too. The background task of the reloader owns the TCP
	// and TLS connections to upstream servers.
	group.Last = append(group.Last, reloader.Run, queries.run)
	p.Log.Info("serving", "listen", sockets.Addrs(), "clusterDomain", s.domain.String())
	return group.Run(ctx)
}

// A server is a DNS server with a cache whose forwarding can be replaced.
type server struct {
	*dnsserver.Server
	cache    *cache.Cache
	lameduck time.Duration
	domain   fqdn.Name       // the cluster domain
	client   upstream.Config // of every client, without servers
	log      *slog.Logger

	applied forwarding // used by apply only

	mu        sync.Mutex
	forwarder *forwarder // for applied
	hosts     hosts      // of applied
	hostsText string     // of the last file of hosts that could be read

	pinned atomic.Pointer[string] // the addresses of pinned names that are served
}

// newServer returns a server with this configuration and the cache of its limits. It forwards nothing
// before apply is called.
func newServer(c dnsserver.Config, register prometheus.Registerer, log *slog.Logger) (*server, error) {
	replies := cache.New(c.Limits.CacheConfig())
	loop, answer := &upstream.LoopDetector{}, c.AnswerProbe
	c.AnswerProbe = func(name string) dns.RR {
		if answer != nil {
			if rr := answer(name); rr != nil {
				return rr
			}
		}
		return loop.AnswerProbe(name)
	}
	c.Cache, c.DetectProbe, c.Drain, c.Logger, c.Register = replies, loop.DetectProbe, Drain, log, register
	dnsServer, err := dnsserver.New(c)
	if err != nil {
		return nil, err
	}
	return &server{
		Server: dnsServer, cache: replies, lameduck: c.Lameduck, domain: c.Domain,
		client: upstream.Config{Loop: loop, Metrics: upstream.NewMetrics(register), Logger: log}, log: log,
	}, nil
}

// apply replaces the forwarding by that of c. The background task runs its clients and
// watches the host file. It is nil if c equals the previous configuration. apply must not be
// called concurrently.
func (s *server) apply(c forwarding) (background daemon.Task) {
	if s.forwarder != nil && reflect.DeepEqual(c, s.applied) {
		return nil // keep the state of the clients
	}
	next := s.newForwarder(c)
	s.mu.Lock()
	s.forwarder = next
	s.SetForwarding(next.Forwarding)
	s.mu.Unlock()
	s.applied = c
	text := s.applyHosts(c.Hosts)
	s.SetRules(c.Rules.compile(nil))
	pinned := &pinner{pinnedNames: c.Pinned, exchange: next.Exchange, serve: s.SetHosts, served: &s.pinned, log: s.log}
	if len(c.Pinned.names) > 0 {
		pinned.load()
	}
	return func(ctx context.Context) error {
		watch := func(ctx context.Context) error {
			return watchFile(ctx, c.Hosts.file, text, func(text string) { s.hostsChanged(next, text) }, s.log)
		}
		return daemon.RunAll(ctx, watch, pinned.run, func(ctx context.Context) error { return next.run(ctx, s.hostChanged) })
	}
}

// hostChanged applies a change of the host file to the server. It ignores a forwarder that
// apply has replaced, and that is not stopped yet.
func (s *server) hostChanged(f *forwarder, changed change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f != s.forwarder || changed == unchanged:
	case changed == suffixesChanged:
		s.SetHostSuffixes(f.HostSuffixes)
	default:
		s.SetForwarding(f.Forwarding)
	}
}

// applyHosts replaces the hosts, and returns the text of their file. If it cannot be read, the text from before remains.
func (s *server) applyHosts(h hosts) (text string) {
	text, err := readFile(h.file)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && h.file == s.hosts.file {
		text = s.hostsText
	}
	s.hosts, s.hostsText = h, text
	s.SetHosts(h.parse(text, err, s.log))
	return text
}

// hostsChanged applies a change of the hosts file, unless apply has replaced the forwarder that it belongs to.
func (s *server) hostsChanged(f *forwarder, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == s.forwarder {
		s.hostsText = text
		s.SetHosts(s.hosts.parse(text, nil, s.log))
	}
}

// cluster returns the client for the cluster DNS.
func (s *server) cluster() *upstream.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarder.cluster
}
