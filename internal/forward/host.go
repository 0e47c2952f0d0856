// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"log/slog"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/hostresolv"
)

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
