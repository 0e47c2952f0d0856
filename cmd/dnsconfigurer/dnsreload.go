// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"sync"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
)

// dnsInForce puts settings in force in a DNS server.
type dnsInForce struct {
	load    func() (dnsSettings, error) // reads the file
	server  *dnsserver.Server
	clients upstream.Config // what all clients of upstream servers have in common
	log     *slog.Logger

	first, last dnsSettings // what the server was started with, and what is in force

	mu         sync.Mutex
	forwarding *forwarding // of last; the reloader alone changes it
}

// start puts the settings in force with which the server is started.
func (f *dnsInForce) start(s dnsSettings) error {
	f.first = s
	return f.use(s)
}

// reload is a reloader's.
func (f *dnsInForce) reload() (companion, []string, error) {
	next, err := f.load()
	if err == nil {
		err = f.use(next)
	}
	return f.forwarding, f.first.needRestart(next), err
}

// use puts s in force: whatever of it can change while the server runs.
func (f *dnsInForce) use(s dnsSettings) error {
	if f.forwarding == nil || !s.forwardsAs(f.last) { // else it stays, with what it knows of the servers
		next, err := newForwarding(s, f.clients, f.serversChanged)
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.forwarding = next
		f.server.Use(next.Forwarding)
		f.mu.Unlock()
	}
	f.last = s
	f.log.Info("settings in force", "upstreams", s.Upstreams, "resolvConf", s.resolvConf, "stubDomains", s.StubDomains)
	return nil
}

// serversChanged tells the server that of has other servers. One that has been replaced
// may say so until it is stopped.
func (f *dnsInForce) serversChanged(of *forwarding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of == f.forwarding {
		f.server.Use(of.Forwarding)
	}
}
