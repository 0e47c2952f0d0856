// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// addServersCut reports rule L1, the finding f of the engine, in terms of the pod's fields. If the
// pod has no part in it, the field is that of the node.
func (c *check) addServersCut(d *policy.Decision, f policy.Finding) {
	fromCluster := func(e policy.Entry) bool { return e.Source.Origin == policy.FromClusterDNS }
	if c.unknown.ClusterDNS && slices.ContainsFunc(d.Nameservers, fromCluster) {
		return
	}
	cut := dropped(d, policy.RuleServerLimit)
	field := c.o.ofPod("spec.dnsConfig.nameservers")
	hint := fmt.Sprintf("drop %d of them; those of the cluster or the node come first, unless dnsPolicy is None", len(cut))
	if aboutNode(f) {
		field, hint = f.Field, f.Hint
	}
	c.warn(policy.CodeServerLimit, policy.EnforcedByNode, field,
		fmt.Sprintf("the pod would have %d nameservers, %d is the limit: the node leaves out %s",
			len(d.Nameservers)+len(cut), policy.MaxNameservers, list(cut)), hint)
}

// addSearchesCut reports rule L2, as addServersCut does: its three limits, in the kubelet's order.
func (c *check) addSearchesCut(d *policy.Decision, f policy.Finding) {
	field := c.o.ofPod("spec.dnsConfig.searches")
	if aboutNode(f) {
		field = f.Field
	}
	excess, long, beyond := dropped(d, policy.RuleSearchLimit), dropped(d, policy.RuleDomainTooLong),
		dropped(d, policy.RuleSearchLineTooLong)
	if len(excess) > 0 {
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, field,
			fmt.Sprintf("the pod would have %d search domains, %d is the limit: the node leaves out %s",
				len(d.Searches)+len(long)+len(beyond)+len(excess), policy.MaxSearches, list(excess)),
			fmt.Sprintf("drop %d of them; those of the cluster and the node come first", len(excess)))
	}
	for _, e := range long {
		at := field
		if e.Source.Origin == policy.FromPod {
			at += fmt.Sprintf("[%d]", e.Source.Index)
		}
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, at,
			fmt.Sprintf("search domain %s has %d characters, %d is the limit: the node leaves it out",
				clip(e.Text), len(e.Text), policy.MaxDomain),
			"shorten it; a final dot counts")
	}
	if len(beyond) > 0 {
		length := len(d.Searches) + len(beyond) - 1 // the blanks
		for _, e := range slices.Concat(d.Searches, beyond) {
			length += len(e.Text)
		}
		c.warn(policy.CodeSearchLimit, policy.EnforcedByNode, field,
			fmt.Sprintf("the search domains would be %d characters together, %d is the limit: the node leaves out %s",
				length, policy.MaxSearchLine, list(beyond)),
			"shorten or drop some; those of the cluster and the node come first")
	}
}

func dropped(d *policy.Decision, r policy.Rule) []policy.Entry {
	var entries []policy.Entry
	for _, e := range d.Dropped {
		if e.Rule == r {
			entries = append(entries, e)
		}
	}
	return entries
}

// list returns the first of entries and the number of the others: a warning of the API
// server is one line.
func list(entries []policy.Entry) string {
	s := clip(entries[0].Text)
	if more := len(entries) - 1; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// clip shortens a value for a message. Labels and FQDNs at their limits are not shortened.
func clip(s string) string { return cut(s, 70) }

// cut returns s, or its first bytes if it has more than limit. It does not split a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}
