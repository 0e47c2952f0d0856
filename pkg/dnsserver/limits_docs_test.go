// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/cache"
)

// TestLimits_AgreeWithDocs: the limits in docs/cluster-dns.md are those of the server.
func TestLimits_AgreeWithDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/cluster-dns.md")
	if err != nil {
		t.Fatal(err)
	}
	const mebibyte = 1 << 20
	for _, row := range []string{
		fmt.Sprintf("| reply over UDP | the size that the client accepts, at most %d octets |", maxUDP),
		fmt.Sprintf("| query | %d octets, one question |", maxQuery),
		fmt.Sprintf("| queries that wait for other servers | %d, on a node cache %d,",
			DefaultMaxConcurrent, DefaultNodeMaxConcurrent),
		fmt.Sprintf("| queries to other servers for the search lists of one client | %d per second, %d at once |",
			DefaultSearchRate, DefaultSearchBurst),
		fmt.Sprintf("| the same for one search list | %d queries, %d domains outside the cluster |", maxSubqueries, MaxHostSuffixes),
		fmt.Sprintf("| queries in flight over TCP | %d, %d of one client, and %d of a connection,",
			DefaultMaxTCPQueries, clientShare(DefaultMaxTCPQueries), DefaultMaxConnectionQueries),
		fmt.Sprintf("| replies over TCP that wait for their client | %d MiB, %d MiB of one client |",
			DefaultMaxReplyOctets/mebibyte, DefaultMaxClientReplyOctets/mebibyte),
		fmt.Sprintf("| TCP connections | %d, %d of one client;",
			DefaultMaxConnections, DefaultMaxClientConnections),
		fmt.Sprintf("| time of a TCP connection | %v s between two queries, %v s for a message",
			idleTimeout.Seconds(), messageTimeout.Seconds()),
		fmt.Sprintf("| chain of ExternalNames | %d aliases |", maxAliases),
		fmt.Sprintf("| RRset of the cluster zone | %d records over TCP,", maxRRset),
		fmt.Sprintf("| cache | %d,%03d answers, %d MiB |", cache.DefaultMaxEntries/1000,
			cache.DefaultMaxEntries%1000, cache.DefaultMaxBytes/mebibyte),
		fmt.Sprintf("| `reverse` | reverse names that are forwarded | %d %% | %[1]d %% |", DefaultReverseShare),
		fmt.Sprintf("| `search` | expansions of search lists, and each query that they send | %d %% | %[1]d %% |",
			DefaultSearchShare),
		fmt.Sprintf("| `plain` | all other names | %d %% | %d %% |", 100-DefaultReverseShare-DefaultSearchShare,
			100-DefaultClusterShare-DefaultReverseShare-DefaultSearchShare),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/cluster-dns.md lacks: %s", row)
		}
	}
}

// clientShare returns how many of slots a single client can hold.
func clientShare(slots int) (held int) {
	b := newBudget(slots)
	for b.inUse() < slots {
		if _, rejected := b.acquire(netip.MustParseAddr("192.0.2.1"), 1); rejected != notRefused {
			break
		}
		held++
	}
	return held
}
