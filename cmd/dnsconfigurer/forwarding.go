// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// forwarding is who is asked for names of others by some settings.
type forwarding struct {
	dnsserver.Forwarding
	clients []*upstream.Client
	changed func(*forwarding) // hears when servers have
	log     *slog.Logger

	host     *hostresolv.Watcher // nil: no file is followed
	followed *upstream.Client    // has its servers
	servers  []upstream.Server   // those
}

// newForwarding returns the forwarding of s. Its clients have common in common.
func newForwarding(s dnsSettings, common upstream.Config, changed func(*forwarding)) (*forwarding, error) {
	f := &forwarding{changed: changed, log: common.Logger}
	if len(s.upstreams) > 0 || s.resolvConf != "" {
		c, err := f.client(common, s.upstreams, "")
		if err != nil {
			return nil, err
		}
		f.Upstream = c.Exchange
		if len(s.upstreams) == 0 {
			if f.host, err = hostresolv.New(hostresolv.Config{Path: s.resolvConf, Logger: common.Logger}); err != nil {
				return nil, err
			}
			snapshot, _ := f.host.Current()
			f.followed, f.servers = c, hostServers(snapshot, slog.New(slog.DiscardHandler)) // followHost tells
			c.SetServers(f.servers)
		}
	}
	for _, stub := range s.stubs {
		name, err := fqdn.ParseName(stub.Zone)
		if err != nil {
			return nil, fmt.Errorf("stub domain %q: %w", stub.Zone, err)
		}
		c, err := f.client(common, stub.Servers, stub.Zone)
		if err != nil {
			return nil, err
		}
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: name, Exchange: c.Exchange})
	}
	return f, nil
}

func (f *forwarding) client(config upstream.Config, servers []upstream.Server, zone string) (*upstream.Client, error) {
	config.Servers, config.LoopZone = servers, zone
	c, err := upstream.New(config)
	f.clients = append(f.clients, c)
	return c, err
}

// start runs the clients, and keeps the servers those of the host's file, until ctx ends
// or stop is called.
func (f *forwarding) start(ctx context.Context) (stop func()) { return start(ctx, f.run) }

func (f *forwarding) run(ctx context.Context) error {
	var tasks []func(context.Context) error
	for _, c := range f.clients {
		tasks = append(tasks, c.Run)
	}
	if f.host != nil {
		tasks = append(tasks, f.host.Run, f.followHost)
	}
	return together(ctx, tasks)
}

func (f *forwarding) followHost(ctx context.Context) error {
	for {
		snapshot, changed := f.host.Current()
		if servers := hostServers(snapshot, f.log); !slices.Equal(servers, f.servers) { // not only other lines
			f.servers = servers
			f.followed.SetServers(servers)
			f.changed(f)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// hostServers returns the servers of the host's file.
func hostServers(snapshot hostresolv.Snapshot, log *slog.Logger) []upstream.Server {
	var servers []upstream.Server
	for _, entry := range snapshot.File.Nameservers {
		server, err := upstream.ParseServer(entry.Text)
		if err != nil {
			log.Warn("a server is left out", "file", snapshot.Path, "line", entry.Line, "nameserver", entry.Text, "reason", err)
			continue
		}
		servers = append(servers, server)
	}
	return servers
}
