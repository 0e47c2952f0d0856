// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsnode

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/autopath"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/zone"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

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
	zones       []*zoneFile
	log         *slog.Logger
}

// clusterTry is the timeout of each of two tries to query a server of the cluster DNS. An
// expansion may take the cluster DNS up to dnsserver.WalkTimeout, if the servers of a search
// domain do not answer. The second try receives the reply even then.
const clusterTry = dnsserver.WalkTimeout/2 + 100*time.Millisecond

// newForwarder returns a forwarder for c.
func (s *server) newForwarder(c forwarding) *forwarder {
	f := &forwarder{log: s.log}
	f.LastKnownGood = c.LastKnownGood
	common := s.client
	common.Policy = c.Policy
	if len(c.Upstreams) > 0 || c.ResolvConf != "" {
		client := f.addClient(common, c.Upstreams, "")
		f.Upstream = client.Exchange
		if len(c.Upstreams) == 0 {
			f.hostClient = client
		}
	}
	s.addCluster(f, c)
	for _, stub := range c.Stubs {
		name, _ := fqdn.ParseName(stub.Zone) // it is validated
		added := dnsserver.Stub{Zone: name, LastKnownGood: stub.LastKnownGood}
		if stub.File != "" {
			z := s.newZoneFile(name, stub.File)
			f.zones = append(f.zones, z)
			added.Exchange, added.Authoritative = z.exchange, true
		} else {
			added.Exchange = f.addClient(common, stub.Servers, stub.Zone).Exchange
		}
		f.Stubs = append(f.Stubs, added)
	}
	if c.ResolvConf != "" && (f.hostClient != nil || f.cluster != nil) {
		f.host = hostresolv.New(hostresolv.Config{Path: c.ResolvConf, Logger: s.log})
		f.readHost()
	}
	return f
}

// addCluster forwards to the cluster DNS: names of the cluster, search lists, and reverse
// names, because only the cluster DNS has the addresses of the cluster. A stub domain may have
// other reverse names, but not those of c.ClusterReverse.
func (s *server) addCluster(f *forwarder, c forwarding) {
	if len(c.Cluster) == 0 {
		return
	}
	cluster := s.client
	cluster.Options, cluster.TryTimeout = []uint16{autopath.Option}, clusterTry
	client := f.addClient(cluster, c.Cluster, s.domain.String())
	f.cluster, f.Expander = client, client.Exchange
	zones := []fqdn.Name{s.domain, zone.InAddrArpa, zone.IP6Arpa}
	for _, network := range c.ClusterReverse {
		zones = append(zones, zone.ReverseZones(network)...)
	}
	for _, zone := range zones {
		f.Stubs = append(f.Stubs, dnsserver.Stub{Zone: zone, Exchange: client.Exchange, Cluster: true})
	}
}

func (f *forwarder) addClient(c upstream.Config, servers []upstream.Server, zone string) *upstream.Client {
	c.Servers, c.Zone = servers, zone
	client := upstream.New(c)
	f.clients = append(f.clients, client)
	return client
}

// run runs the clients and applies changes of the host file and of zone files until ctx ends. It calls onChange after
// a change.
func (f *forwarder) run(ctx context.Context, onChange func(*forwarder, change)) error {
	var tasks []daemon.Task
	for _, c := range f.clients {
		tasks = append(tasks, c.Run)
	}
	for _, z := range f.zones {
		tasks = append(tasks, func(ctx context.Context) error {
			return watchFile(ctx, z.path, z.text, func(text string) {
				z.load(text)
				onChange(f, serversChanged)
			}, f.log)
		})
	}
	if f.host != nil {
		tasks = append(tasks, f.host.Run, func(ctx context.Context) error {
			for {
				select {
				case <-f.hostNewer:
					onChange(f, f.readHost())
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	return daemon.RunAll(ctx, tasks...)
}

// A change is the part of the forwarding that a change of a file affects.
type change uint8

const (
	unchanged       change = iota
	suffixesChanged        // the search domains alone
	serversChanged         // or a zone file, and perhaps the search domains; cached replies may be wrong
)

// readHost applies the content of the host file. Its search domains are those of the node's pods.
func (f *forwarder) readHost() (changed change) {
	var snapshot hostresolv.Snapshot
	snapshot, f.hostNewer = f.host.Current()
	if suffixes := HostSuffixes(snapshot, f.log); !slices.Equal(suffixes, f.HostSuffixes) {
		f.HostSuffixes, changed = suffixes, suffixesChanged
	}
	if f.hostClient == nil {
		return changed
	}
	var servers []upstream.Server
	for _, entry := range snapshot.File.Nameservers {
		server, err := upstream.ParseServer(entry.Text)
		if err != nil {
			f.log.Warn("invalid nameserver skipped", "file", snapshot.Path, "line", entry.Line, "nameserver", entry.Text, "error", err)
			continue
		}
		servers = append(servers, server)
	}
	if !slices.Equal(servers, f.hostServers) {
		f.hostServers, changed = servers, serversChanged
		f.hostClient.SetServers(servers)
	}
	return changed
}

// HostSuffixes returns the search domains of the host's file, without the root and
// duplicates. Invalid ones are logged and skipped. There may be more than
// dnsserver.MaxHostSuffixes. The server uses the first; this is logged, too.
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
