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
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

// shared has the values that all forwarders of a server use. A reload does not change them.
type shared struct {
	client   upstream.Config // for every client, without servers
	domain   fqdn.Name       // the cluster domain
	option   uint16          // code of the EDNS0 option for search lists
	onChange func(*forwarder, change)
}

// A forwarder has the dnsserver.Forwarding for one configuration, and the clients that the
// forwarding uses. It updates both when the host file changes.
type forwarder struct {
	dnsserver.Forwarding
	clients []*upstream.Client
	cluster *upstream.Client // the one of clients for the cluster DNS; nil: the server itself is the cluster DNS

	host        *hostresolv.Watcher // nil: the host file is not used
	hostNewer   <-chan struct{}     // closed when the host file is newer than what is applied
	hostClient  *upstream.Client    // the one of clients for the servers in the host file; nil: upstream servers are configured
	hostServers []upstream.Server
	useSearches bool // the search domains in the host file are the HostSuffixes

	onChange func(*forwarder, change) // called after a change of the host file has changed the forwarding
	log      *slog.Logger
}

// newForwarder returns a forwarder for c.
func newForwarder(c config.Forward, s shared) (*forwarder, error) {
	common := s.client
	common.Policy = c.Policy
	f := &forwarder{onChange: s.onChange, log: common.Logger, useSearches: len(c.Cluster) > 0}
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
		var snapshot hostresolv.Snapshot
		snapshot, f.hostNewer = f.host.Current()
		f.apply(snapshot)
	}
	if len(c.Cluster) > 0 {
		if err := f.addCluster(c, s); err != nil {
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

// clusterTry is the timeout of each of two tries to query a server of the cluster DNS. An
// expansion may take the cluster DNS up to dnsserver.WalkTimeout, if the servers of a search
// domain do not answer. The second try receives the reply even then.
const clusterTry = dnsserver.WalkTimeout/2 + 100*time.Millisecond

// addCluster forwards to the cluster DNS: names of the cluster, search lists, and reverse
// names, because only the cluster DNS has the addresses of the cluster. A stub domain may have
// other reverse names, but not those of c.ClusterReverse.
func (f *forwarder) addCluster(c config.Forward, s shared) error {
	common := s.client
	common.Options, common.TryTimeout = []uint16{s.option}, clusterTry
	client, err := f.addClient(common, c.Cluster, s.domain.String())
	if err != nil {
		return err
	}
	f.cluster, f.Expander = client, client.Exchange
	arpa := fqdn.Join(fqdn.Root, "arpa")
	zones := []fqdn.Name{s.domain, fqdn.Join(arpa, "in-addr"), fqdn.Join(arpa, "ip6")}
	for _, network := range c.ClusterReverse {
		zones = append(zones, zone.ReverseZones(network)...)
	}
	for _, zone := range zones {
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: zone, Exchange: client.Exchange, Cluster: true})
	}
	return nil
}

func (f *forwarder) addClient(c upstream.Config, servers []upstream.Server, zone string) (*upstream.Client, error) {
	c.Servers, c.Zone = servers, zone
	client, err := upstream.New(c)
	f.clients = append(f.clients, client)
	return client, err
}

// run runs the clients and applies changes of the host file until ctx ends.
func (f *forwarder) run(ctx context.Context) error {
	var tasks []daemon.Task
	for _, c := range f.clients {
		tasks = append(tasks, c.Run)
	}
	if f.host != nil {
		tasks = append(tasks, f.host.Run, f.watchHost)
	}
	return daemon.RunAll(ctx, tasks...)
}

// watchHost applies changes of the host file until ctx ends.
func (f *forwarder) watchHost(ctx context.Context) error {
	for {
		select {
		case <-f.hostNewer:
		case <-ctx.Done():
			return nil
		}
		var snapshot hostresolv.Snapshot
		snapshot, f.hostNewer = f.host.Current()
		if changed := f.apply(snapshot); changed != unchanged {
			f.onChange(f, changed)
		}
	}
}

// A change is the part of the forwarding that a change of the host file affects.
type change uint8

const (
	unchanged       change = iota
	suffixesChanged        // the search domains alone
	serversChanged         // and perhaps the search domains; cached replies of the previous servers may be wrong
)

// apply applies the content of the host file.
func (f *forwarder) apply(snapshot hostresolv.Snapshot) (changed change) {
	if f.useSearches {
		if suffixes := HostSuffixes(snapshot, f.log); !slices.Equal(suffixes, f.HostSuffixes) {
			f.HostSuffixes, changed = suffixes, suffixesChanged
		}
	}
	if f.hostClient != nil {
		if servers := hostServers(snapshot, f.log); !slices.Equal(servers, f.hostServers) {
			f.hostServers, changed = servers, serversChanged
			f.hostClient.SetServers(servers)
		}
	}
	return changed
}

// hostServers returns the servers of the host's file. Invalid ones are logged and skipped.
func hostServers(snapshot hostresolv.Snapshot, log *slog.Logger) []upstream.Server {
	var servers []upstream.Server
	for _, entry := range snapshot.File.Nameservers {
		server, err := upstream.ParseServer(entry.Text)
		if err != nil {
			log.Warn("invalid nameserver skipped", "file", snapshot.Path, "line", entry.Line, "nameserver", entry.Text, "error", err)
			continue
		}
		servers = append(servers, server)
	}
	return servers
}

// HostSuffixes returns the search domains of the host's file, without the root and
// duplicates. Invalid ones are logged and skipped. There may be more than
// dnsserver.MaxHostSuffixes, of which the server uses the first; that is logged, too.
func HostSuffixes(snapshot hostresolv.Snapshot, log *slog.Logger) []fqdn.Name {
	var suffixes []fqdn.Name
	for _, entry := range snapshot.File.Searches {
		name, err := fqdn.ParseName(entry.Text)
		if err != nil {
			log.Warn("invalid search domain skipped", "file", snapshot.Path, "line", entry.Line, "domain", entry.Text, "error", err)
			continue
		}
		if name != fqdn.Root && !slices.Contains(suffixes, name) {
			suffixes = append(suffixes, name)
		}
	}
	if n := len(suffixes); n > dnsserver.MaxHostSuffixes {
		log.Warn("too many search domains, using the first ones", "file", snapshot.Path, "domains", n, "used", dnsserver.MaxHostSuffixes)
	}
	return suffixes
}
