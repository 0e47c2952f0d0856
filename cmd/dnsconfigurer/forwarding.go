// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/forward"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// forwarding is who is asked for names of others by some settings.
type forwarding struct {
	dnsserver.Forwarding
	clients []*upstream.Client
	changed func(*forwarding, change) // hears what the host's file has changed
	log     *slog.Logger

	host     *hostresolv.Watcher // nil: no file is followed
	followed *upstream.Client    // has its servers; nil: others are configured
	servers  []upstream.Server   // those
	searches bool                // its domains are the HostSuffixes

	cluster *upstream.Client // of the cluster DNS; nil: that is us
}

// newForwarding returns the forwarding to p. Its clients have common in common.
func newForwarding(p peers, common upstream.Config, changed func(*forwarding, change)) (*forwarding, error) {
	f := &forwarding{changed: changed, log: common.Logger, searches: p.cluster != nil}
	if len(p.upstreams) > 0 || p.resolvConf != "" {
		c, err := f.client(common, p.upstreams, "")
		if err != nil {
			return nil, err
		}
		f.Upstream = c.Exchange
		if len(p.upstreams) == 0 {
			f.followed = c
		}
	}
	if p.resolvConf != "" && (f.followed != nil || f.searches) {
		var err error
		if f.host, err = hostresolv.New(hostresolv.Config{Path: p.resolvConf, Logger: common.Logger}); err != nil {
			return nil, err
		}
		snapshot, _ := f.host.Current()
		f.take(snapshot, slog.New(slog.DiscardHandler)) // followHost tells
	}
	if p.cluster != nil {
		if err := f.toCluster(*p.cluster, common); err != nil {
			return nil, err
		}
	}
	for _, stub := range p.stubs {
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

// clusterTry is how long a server of the cluster DNS is waited for, in each of two tries.
// Where a domain of the search list is dead the answer comes when the walk along it gives
// that up; the second try still hears it.
const clusterTry = dnsserver.WalkTimeout/2 + 100*time.Millisecond

// toCluster sends the names of the cluster, search lists, and reverse names to the cluster
// DNS, which knows whose addresses are the cluster's.
func (f *forwarding) toCluster(p clusterPeers, common upstream.Config) error {
	common.Options, common.TryTimeout = []uint16{p.option}, clusterTry
	c, err := f.client(common, p.servers, p.domain.String())
	if err != nil {
		return err
	}
	f.cluster, f.Expander = c, c.Exchange
	arpa := fqdn.Join(fqdn.Root, "arpa")
	for _, zone := range []fqdn.Name{p.domain, fqdn.Join(arpa, "in-addr"), fqdn.Join(arpa, "ip6")} {
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: zone, Exchange: c.Exchange})
	}
	return nil
}

func (f *forwarding) client(config upstream.Config, servers []upstream.Server, zone string) (*upstream.Client, error) {
	config.Servers, config.Zone = servers, zone
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
	return daemon.RunAll(ctx, tasks...)
}

func (f *forwarding) followHost(ctx context.Context) error {
	for {
		snapshot, changed := f.host.Current()
		if what := f.take(snapshot, f.log); what != unchanged {
			f.changed(f, what)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// change is what another host's file means for a server.
type change uint8

const (
	unchanged     change = iota
	otherSuffixes        // and nothing else
	otherServers         // what was learned from those before may be wrong
)

// take does as the host's file says.
func (f *forwarding) take(snapshot hostresolv.Snapshot, log *slog.Logger) (what change) {
	if f.searches {
		if suffixes := forward.HostSuffixes(snapshot, log); !slices.Equal(suffixes, f.HostSuffixes) {
			f.HostSuffixes, what = suffixes, otherSuffixes
		}
	}
	if f.followed != nil {
		if servers := forward.HostServers(snapshot, log); !slices.Equal(servers, f.servers) { // not only other lines
			f.servers, what = servers, otherServers
			f.followed.SetServers(servers)
		}
	}
	return what
}
