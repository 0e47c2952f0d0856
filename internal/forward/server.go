// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/miekg/dns"
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
	cache  *cache.Cache
	loop   *upstream.LoopDetector
	shared shared
	log    *slog.Logger

	applied config.Forward // used by Apply only

	mu        sync.Mutex
	forwarder *forwarder // for applied
}

// New returns a server with this configuration and a cache of this size. It forwards nothing before
// Apply is called.
func New(c dnsserver.Config, size cache.Config, register prometheus.Registerer, log *slog.Logger) (*Server, error) {
	replies, err := cache.New(size)
	if err != nil {
		return nil, err
	}
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
	server, err := dnsserver.New(c)
	if err != nil {
		return nil, err
	}
	s := &Server{Server: server, cache: replies, loop: loop, log: log}
	s.shared = shared{
		client: upstream.Config{Loop: loop, Metrics: upstream.NewMetrics(register), Logger: log},
		domain: c.Domain, option: c.Autopath.Option, onChange: s.hostChanged,
	}
	return s, nil
}

// SetReplicas sets what the replicas of the server have in common, and no other server has:
// see upstream.LoopDetector.SetKey.
func (s *Server) SetReplicas(key string) { s.loop.SetKey(key) }

// Apply replaces the forwarding by that of c. The background task runs its clients and
// watches the host file. It is nil if c equals the previous configuration. Apply must not be
// called concurrently.
func (s *Server) Apply(c config.Forward) (background daemon.Task, err error) {
	if s.forwarder == nil || !reflect.DeepEqual(c, s.applied) { // otherwise keep the state of the clients
		next, err := newForwarder(c, s.shared)
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
	if len(c.Cluster) > 0 {
		attrs = append(attrs, "clusterDNS", c.Cluster)
	}
	s.log.Info("configuration applied", attrs...)
	return background, nil
}

// hostChanged applies a change of the host file to the server. It ignores a forwarder that
// Apply has replaced, and that is not stopped yet.
func (s *Server) hostChanged(f *forwarder, changed change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f != s.forwarder:
	case changed == suffixesChanged:
		s.SetHostSuffixes(f.HostSuffixes)
	default:
		s.SetForwarding(f.Forwarding)
	}
}

// Cluster returns the client for the cluster DNS.
func (s *Server) Cluster() *upstream.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forwarder.cluster
}

// ClusterStatus returns the state of each server of the cluster DNS, from its replies to all
// queries.
func (s *Server) ClusterStatus() (details []string) {
	for _, server := range s.Cluster().Status() {
		state := "ok"
		switch {
		case server.Looping:
			state = "forwarding loop: it sends the queries back"
		case server.Down:
			state = "does not answer"
		}
		details = append(details, fmt.Sprintf("cluster DNS %v: %s", server.Server, state))
	}
	return details
}
