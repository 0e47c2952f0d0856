// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLimits_AgreeWithDocs: the limits in docs/dns.md are those of the server.
func TestLimits_AgreeWithDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/dns.md")
	if err != nil {
		t.Fatal(err)
	}
	const mebibyte = 1 << 20
	var limits Limits
	if err := limits.setDefaults(); err != nil {
		t.Fatal(err)
	}
	size := limits.CacheConfig()
	for _, row := range []string{
		fmt.Sprintf("| reply over UDP | the size that the client accepts, at most %d octets |", maxUDP),
		fmt.Sprintf("| query | %d octets, one question |", maxQuery),
		fmt.Sprintf("| queries that wait for other servers | %d;", DefaultMaxQueries),
		fmt.Sprintf("| queries to other servers for one search list | %d, and %d domains outside the cluster |",
			maxSubqueries, MaxHostSuffixes),
		fmt.Sprintf("| queries of a TCP connection that wait | %d |", maxStreamQueries),
		fmt.Sprintf("| replies over TCP of more than %d octets that wait for their client | %d |", smallReply, limits.maxReplies()),
		fmt.Sprintf("| TCP connections | %d;", limits.maxConnections()),
		fmt.Sprintf("| time of a TCP connection | %v s between two queries, %v s for a message",
			idleTimeout.Seconds(), messageTimeout.Seconds()),
		fmt.Sprintf("| chain of ExternalNames | %d aliases |", maxAliases),
		fmt.Sprintf("| RRset of the cluster zone | %d records over TCP,", maxRRset),
		fmt.Sprintf("| cache | %d,%03d answers, %d MiB |", size.MaxEntries/1000, size.MaxEntries%1000, size.MaxBytes/mebibyte),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/dns.md lacks: %s", row)
		}
	}
}
