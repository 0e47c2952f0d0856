// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// dnsInForce puts the peers of the settings in force in a DNS server.
type dnsInForce struct {
	// load reads the file. It names the fields that count only when a server starts, and
	// that say something else than they did then.
	load    func() (peers, []string, error)
	server  *dnsserver.Server
	clients upstream.Config // what all clients of other servers have in common
	log     *slog.Logger

	last peers // in force

	mu         sync.Mutex
	forwarding *forwarding // of last; the reloader alone changes it
}

// begin makes the server, with c and what all servers have, and puts p in force. The
// reloader goes on from there.
func (f *dnsInForce) begin(c dnsserver.Config, p peers, registry *prometheus.Registry, r *reloader) error {
	loop := &upstream.LoopDetector{}
	replies, err := cache.New(cache.Config{})
	if err != nil {
		return err
	}
	c.Cache, c.Returned, c.Drain, c.Logger, c.Register = replies, loop.DetectProbe, dnsDrain, f.log, registry
	if f.server, err = dnsserver.New(c); err != nil {
		return err
	}
	f.clients = upstream.Config{Loop: loop, Metrics: upstream.NewMetrics(registry), Logger: f.log}
	if err := f.use(p); err != nil {
		return err
	}
	r.running, r.success = f.forwarding, newReloadSuccess(registry)
	return nil
}

// reload is a reloader's.
func (f *dnsInForce) reload() (companion, []string, error) {
	next, restart, err := f.load()
	if err == nil {
		err = f.use(next)
	}
	return f.forwarding, restart, err
}

// use puts p in force.
func (f *dnsInForce) use(p peers) error {
	if f.forwarding == nil || !reflect.DeepEqual(p, f.last) { // else it stays, with what it knows of the servers
		next, err := newForwarding(p, f.clients, f.hostChanged)
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.forwarding = next
		f.server.SetForwarding(next.Forwarding)
		f.mu.Unlock()
	}
	f.last = p
	said := []any{"upstreams", p.upstreams, "resolvConf", p.resolvConf, "stubDomains", p.stubs}
	if p.cluster != nil {
		said = append(said, "clusterDNS", p.cluster.servers)
	}
	f.log.Info("settings in force", said...)
	return nil
}

// hostChanged tells the server what the host's file has changed for of. One that has been
// replaced may say so until it is stopped.
func (f *dnsInForce) hostChanged(of *forwarding, what change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case of != f.forwarding:
	case what == otherSuffixes:
		f.server.SetHostSuffixes(of.HostSuffixes)
	default:
		f.server.SetForwarding(of.Forwarding)
	}
}
