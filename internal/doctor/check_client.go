// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/advise"
)

const (
	// topQueries, topFailed and topAbsent are the numbers of clients with most queries, failures and NXDOMAIN that are
	// listed. Together they are below maxLines.
	topQueries, topFailed, topAbsent = 4, 2, 2

	// refusedShare divides the queries: fewer refused ones are not a finding.
	refusedShare = 1000

	clientNames = 3 // that are listed of a client
)

// needClients is what servers count by client. Without the flag, there is none.
func needClients(v *view) (string, bool) { return v.Unread[Clients], len(v.Clients) > 0 }

// clientLine is the evidence about a client.
func (v *view) clientLine(c advise.PodCounts) string {
	line := "address " + c.Address.String()
	if c.Pod != nil {
		line = podObject(c.Pod).String()
	}
	line += fmt.Sprintf(": %d queries, %d failed, %d NXDOMAIN", c.Queries, c.Failed, c.NXDomain())
	if !v.Names {
		return line
	}
	if names := advise.NamesOf(v.Clients, c.Address); len(names) > 0 {
		line += ", most for " + strings.Join(names[:min(len(names), clientNames)], ", ")
	}
	return line
}

// findClients returns the clients with most queries, failures and NXDOMAIN.
func findClients(v *view) []hit {
	all := advise.CountPods(v.Clients, v.Pods)
	var evidence []string
	for _, top := range []struct {
		number int
		by     func(advise.PodCounts) uint64
	}{
		{topQueries, func(c advise.PodCounts) uint64 { return c.Queries }},
		{topFailed, func(c advise.PodCounts) uint64 { return c.Failed }},
		{topAbsent, func(c advise.PodCounts) uint64 { return c.NXDomain() }},
	} {
		slices.SortStableFunc(all, func(a, b advise.PodCounts) int { return cmp.Compare(top.by(b), top.by(a)) })
		for _, c := range all[:min(len(all), top.number)] {
			if line := v.clientLine(c); top.by(c) > 0 && !slices.Contains(evidence, line) {
				evidence = append(evidence, line)
			}
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	message := fmt.Sprintf("%d clients sent queries to %d servers", len(all), len(v.Clients))
	return []hit{found(v.servers(), message, moreLine(evidence, len(all), len(evidence))...)}
}

// findFlood returns the client that sends most queries, if the servers refuse some.
func findFlood(v *view) []hit {
	all := advise.CountPods(v.Clients, v.Pods)
	var queries, refused uint64
	for _, s := range v.Clients {
		queries += s.Report.Others.Queries
		refused += s.Refused
	}
	for _, c := range all {
		queries += c.Queries
	}
	if len(all) == 0 || 2*all[0].Queries <= queries || refused <= queries/refusedShare {
		return nil
	}
	o := v.servers()
	if p := all[0].Pod; p != nil {
		o = podObject(p)
	}
	return []hit{found(o, fmt.Sprintf("it sent %d of %d queries, and the servers refused %d", all[0].Queries, queries, refused),
		v.clientLine(all[0]))}
}

// servers names the DNS servers that count.
func (v *view) servers() object { return object{kind: "DNS servers", name: "of dnsconfigurer"} }
