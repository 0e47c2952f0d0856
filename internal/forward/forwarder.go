// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// A forwarder is the forwarding by one configuration. It keeps up with the host's file.
type forwarder struct {
	dnsserver.Forwarding
	clients []*upstream.Client
	cluster *upstream.Client // one of clients, for the cluster DNS; nil: the server is that

	host        *hostresolv.Watcher // nil: the configuration does not use the file
	hostClient  *upstream.Client    // one of clients, which forwards to the servers in the file; nil: others are configured
	hostServers []upstream.Server
	useSearches bool // the search domains in the file are the HostSuffixes

	onChange func(*forwarder, change) // is called when the file has changed the forwarding
	log      *slog.Logger
}

// newForwarder returns the forwarding by c. All clients have common.
func newForwarder(c config.Forward, common upstream.Config, onChange func(*forwarder, change)) (*forwarder, error) {
	f := &forwarder{onChange: onChange, log: common.Logger, useSearches: c.Cluster != nil}
	if len(c.Upstreams) > 0 || c.ResolvConf != "" {
		client, err := f.addClient(common, c.Upstreams, "")
		if err != nil {
			return nil, err
		}
		f.Upstream = client.Exchange
		if len(c.Upstreams) == 0 {
			f.hostClient = client
		}
	}
	if c.ResolvConf != "" && (f.hostClient != nil || f.useSearches) {
		var err error
		if f.host, err = hostresolv.New(hostresolv.Config{Path: c.ResolvConf, Logger: common.Logger}); err != nil {
			return nil, err
		}
		snapshot, _ := f.host.Current()
		f.apply(snapshot, slog.New(slog.DiscardHandler)) // followHost logs the same
	}
	if c.Cluster != nil {
		if err := f.addCluster(*c.Cluster, common); err != nil {
			return nil, err
		}
	}
	return f, f.addStubs(c.Stubs, common)
}

func (f *forwarder) addStubs(stubs []upstream.StubDomain, common upstream.Config) error {
	for _, stub := range stubs {
		name, err := fqdn.ParseName(stub.Zone)
		if err != nil {
			return fmt.Errorf("stub domain %q: %w", stub.Zone, err)
		}
		client, err := f.addClient(common, stub.Servers, stub.Zone)
		if err != nil {
			return err
		}
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: name, Exchange: client.Exchange})
	}
	return nil
}

// clusterTry is the timeout of each of two tries to query a server of the cluster DNS. A
// domain of the search list whose servers do not answer takes all the time that the server
// spends on an expansion; the second try still receives that reply.
const clusterTry = dnsserver.WalkTimeout/2 + 100*time.Millisecond

// addCluster forwards to the cluster DNS: names of the cluster, search lists, and reverse
// names, because only the cluster DNS knows which addresses are the cluster's.
func (f *forwarder) addCluster(c config.Cluster, common upstream.Config) error {
	common.Options, common.TryTimeout = []uint16{c.Option}, clusterTry
	client, err := f.addClient(common, c.Servers, c.Domain.String())
	if err != nil {
		return err
	}
	f.cluster, f.Expander = client, client.Exchange
	arpa := fqdn.Join(fqdn.Root, "arpa")
	for _, zone := range []fqdn.Name{c.Domain, fqdn.Join(arpa, "in-addr"), fqdn.Join(arpa, "ip6")} {
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: zone, Exchange: client.Exchange})
	}
	return nil
}

func (f *forwarder) addClient(c upstream.Config, servers []upstream.Server, zone string) (*upstream.Client, error) {
	c.Servers, c.Zone = servers, zone
	client, err := upstream.New(c)
	f.clients = append(f.clients, client)
	return client, err
}

// run runs the clients and follows the host's file until ctx ends.
func (f *forwarder) run(ctx context.Context) error {
	var tasks []daemon.Task
	for _, c := range f.clients {
		tasks = append(tasks, c.Run)
	}
	if f.host != nil {
		tasks = append(tasks, f.host.Run, f.followHost)
	}
	return daemon.RunAll(ctx, tasks...)
}

func (f *forwarder) followHost(ctx context.Context) error {
	for {
		snapshot, changed := f.host.Current()
		if what := f.apply(snapshot, f.log); what != unchanged {
			f.onChange(f, what)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// change is what a new content of the host's file changes for a server.
type change uint8

const (
	unchanged       change = iota
	suffixesChanged        // and not the servers
	serversChanged         // cached replies of the previous servers may be wrong
)

// apply applies the content of the host's file.
func (f *forwarder) apply(snapshot hostresolv.Snapshot, log *slog.Logger) (what change) {
	if f.useSearches {
		if suffixes := HostSuffixes(snapshot, log); !slices.Equal(suffixes, f.HostSuffixes) {
			f.HostSuffixes, what = suffixes, suffixesChanged
		}
	}
	if f.hostClient != nil {
		if servers := hostServers(snapshot, log); !slices.Equal(servers, f.hostServers) {
			f.hostServers, what = servers, serversChanged
			f.hostClient.SetServers(servers)
		}
	}
	return what
}
