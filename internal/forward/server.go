// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// Drain is the time that queries in flight get when the server stops: as long as an
// upstream server may take.
const Drain = 5 * time.Second

// A Server is a DNS server with a cache whose forwarding can be replaced.
type Server struct {
	*dnsserver.Server
	cache   *cache.Cache
	clients upstream.Config // of all clients
	log     *slog.Logger

	applied config.Forward // used by Apply only

	mu        sync.Mutex
	forwarder *forwarder // by applied
}

// New returns a server by c that forwards nothing before Apply.
func New(c dnsserver.Config, register prometheus.Registerer, log *slog.Logger) (*Server, error) {
	replies, err := cache.New(cache.Config{})
	if err != nil {
		return nil, err
	}
	loop := &upstream.LoopDetector{}
	c.Cache, c.Returned, c.Drain, c.Logger, c.Register = replies, loop.DetectProbe, Drain, log, register
	server, err := dnsserver.New(c)
	if err != nil {
		return nil, err
	}
	clients := upstream.Config{Loop: loop, Metrics: upstream.NewMetrics(register), Logger: log}
	return &Server{Server: server, cache: replies, clients: clients, log: log}, nil
}

// Apply forwards by c from now on. The background task is what keeps the forwarding up to
// date; it is nil if c is what was applied before. Apply is for one goroutine.
func (s *Server) Apply(c config.Forward) (background daemon.Task, err error) {
	if s.forwarder == nil || !reflect.DeepEqual(c, s.applied) { // otherwise keep the state of the clients
		next, err := newForwarder(c, s.clients, s.hostChanged)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.forwarder = next
		s.SetForwarding(next.Forwarding)
		s.mu.Unlock()
		s.applied, background = c, next.run
	}
	attrs := []any{"upstreams", c.Upstreams, "resolvConf", c.ResolvConf, "stubDomains", c.Stubs}
	if c.Cluster != nil {
		attrs = append(attrs, "clusterDNS", c.Cluster.Servers)
	}
	s.log.Info("configuration applied", attrs...)
	return background, nil
}

// hostChanged applies what the host's file changed for of. One that was replaced may call
// it until it is stopped.
func (s *Server) hostChanged(of *forwarder, what change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case of != s.forwarder:
	case what == suffixesChanged:
		s.SetHostSuffixes(of.HostSuffixes)
	default:
		s.SetForwarding(of.Forwarding)
	}
}

// Cluster returns the client for the cluster DNS.
func (s *Server) Cluster() *upstream.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarder.cluster
}

// ClusterReady returns an error if no server of the cluster DNS answers, and the state of
// each. A server without queries counts as one that answers.
func (s *Server) ClusterReady() (details []string, err error) {
	err = errors.New("no cluster DNS server answers")
	for _, server := range s.Cluster().Status() {
		state := "ok"
		switch {
		case server.Looping:
			state = "forwarding loop: it sends the queries back"
		case server.Down:
			state = "does not answer"
		default:
			err = nil
		}
		details = append(details, fmt.Sprintf("cluster DNS %v: %s", server.Server, state))
	}
	return details, err
}
