// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"

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
	forwarding  *forwarding // of last
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
		next, err := newForwarding(s, f.clients, f.server.Use)
		if err != nil {
			return err
		}
		f.forwarding = next
		f.server.Use(next.Forwarding)
	}
	f.last = s
	f.log.Info("settings in force", "upstreams", s.Upstreams, "resolvConf", s.resolvConf, "stubDomains", s.StubDomains)
	return nil
}
