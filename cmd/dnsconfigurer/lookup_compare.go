// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// policies are those that are compared for the pod. On the host's network ClusterFirst
// is the host's DNS, and the sibling of autopath is another.
func (l *podLookup) policies() []policy.Policy {
	if l.workload.Pod.Spec.HostNetwork {
		return []policy.Policy{policy.ClusterFirstWithHostNet, policy.ClusterFirstWithAutopath}
	}
	return []policy.Policy{policy.ClusterFirst, policy.ClusterFirstWithAutopath}
}

// Who sends and who answers.
const (
	atPod        = "pod"
	atNodeCache  = "node cache"
	atClusterDNS = "cluster DNS"
	atUpstream   = "upstream"
)

// comparison is one lookup by two policies.
type comparison struct {
	plain, autopath lookupPrinter
	node            policy.Node
}

func (c comparison) complete() bool {
	agree, _ := c.agree()
	return agree && c.plain.complete()
}

// agree tells whether the program gets the same both times, if that is known: the same
// addresses and records in any order, or the same error. The way to them does not count.
func (c comparison) agree() (agree, known bool) {
	a, b := &c.plain.result, &c.autopath.result
	if a.open != "" || b.open != "" {
		return false, false
	}
	sorted := func(list []netip.Addr) []netip.Addr {
		return slices.SortedFunc(slices.Values(list), netip.Addr.Compare)
	}
	return a.Error == b.Error && slices.Equal(sorted(a.Addresses), sorted(b.Addresses)) &&
		slices.Equal(c.records(a.Answers), c.records(b.Answers)), true
}

// records are what a program finds in an answer, without TTLs and without the alias
// that an expansion begins with.
func (c comparison) records(answer []dns.RR) (list []string) {
	for _, rr := range answer {
		if dns.IsSubDomain(c.suffix(), rr.Header().Name) {
			continue
		}
		rr = dns.Copy(rr)
		rr.Header().Ttl = 0
		list = append(list, line(rr))
	}
	slices.Sort(list)
	return list
}

// server says who is behind the address of a nameserver.
func (c comparison) server(a netip.Addr) string {
	is := func(b netip.Addr) bool { return a.Unmap() == b.Unmap() }
	switch {
	case is(c.node.Autopath.NodeCache):
		return atNodeCache
	case slices.ContainsFunc(c.node.ClusterDNS, is):
		return atClusterDNS
	}
	return a.String()
}

// hops counts the queries of a lookup. Caches are empty before it: a node cache asks once
// for each question of the pod, with the search list or without.
func (c comparison) hops(p lookupPrinter) []v1alpha1.LookupHop {
	var hops []v1alpha1.LookupHop
	var forwarded, others []dns.Question // by a node cache: to the cluster DNS, and to upstream
	for _, q := range p.result.Queries {
		to := c.server(q.Server)
		i := slices.IndexFunc(hops, func(h v1alpha1.LookupHop) bool { return h.To == to })
		if i < 0 {
			i, hops = len(hops), append(hops, v1alpha1.LookupHop{From: atPod, To: to})
		}
		hops[i].Queries++
		switch question := (dns.Question{Name: dns.CanonicalName(q.Name), Qtype: q.Type}); {
		case to != atNodeCache:
		case c.ofCluster(question.Name):
			forwarded = appendNew(forwarded, question)
		default:
			others = appendNew(others, question)
		}
	}
	if p.server != "" {
		return hops // what it asks others for, nobody here sees
	}
	if n := len(forwarded); n > 0 {
		hops = append(hops, v1alpha1.LookupHop{From: atNodeCache, To: atClusterDNS, Queries: n, Derived: true})
	}
	if n := len(others); n > 0 {
		hops = append(hops, v1alpha1.LookupHop{From: atNodeCache, To: atUpstream, Queries: n, Derived: true})
	}
	n := p.result.upstream
	if !slices.ContainsFunc(forwarded, func(q dns.Question) bool { return dns.IsSubDomain(c.suffix(), q.Name) }) {
		n = max(0, n-len(others)) // behind a walk along the list they were known already
	}
	if n == 0 && len(others) > 0 {
		return hops
	}
	return append(hops, v1alpha1.LookupHop{From: atClusterDNS, To: atUpstream, Queries: n, Derived: n > 0 && len(p.upstream) == 0})
}

// suffix is that of names with a search list.
func (c comparison) suffix() string {
	return dns.Fqdn(cmp.Or(c.node.Autopath.Suffix, policy.DefaultAutopathSuffix))
}

// ofCluster tells whether a node cache asks the cluster DNS for a name.
func (c comparison) ofCluster(name string) bool {
	return slices.ContainsFunc([]string{dns.Fqdn(c.node.ClusterDomain), "in-addr.arpa.", "ip6.arpa.", c.suffix()},
		func(zone string) bool { return dns.IsSubDomain(zone, name) })
}

func (c comparison) text(w io.Writer) error {
	q := c.plain.question
	fmt.Fprintf(w, "# %s in %s looks up %s %s\n# %s\n", q.library, c.plain.pod, q.name, q.typeName(), c.plain.answering())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "queries\t%s\t%s\n", c.plain.policy, c.autopath.policy)
	plain, expanded := c.hops(c.plain), c.hops(c.autopath)
	for _, way := range ways(plain, expanded) {
		a, b := count(way, plain), count(way, expanded)
		fmt.Fprintf(table, "%s -> %s\t%s\t%s\n", way.From, way.To, a, b)
	}
	table.Flush() // its errors are those of the last line too
	remarks := [][]string{c.plain.remarks(), c.autopath.remarks()}
	var shared []string
	for i, p := range []lookupPrinter{c.plain, c.autopath} {
		fmt.Fprintf(w, "%s: %s\n", p.policy, strings.Join(p.outcome(), ", "))
		for _, r := range remarks[i] {
			if slices.Contains(remarks[1-i], r) {
				shared = appendNew(shared, r)
				continue
			}
			fmt.Fprintf(w, "# %s\n", r)
		}
	}
	_, err := fmt.Fprintf(w, "# %s\n", strings.Join(append(shared, c.verdict()), "\n# "))
	return err
}

func (c comparison) verdict() string {
	agree, known := c.agree()
	switch {
	case !known && c.plain.result.open == c.autopath.result.open:
		return "both depend on " + c.plain.result.open
	case !known:
		return "not known whether they agree"
	case agree:
		return "they agree"
	}
	return "they do not agree: docs/autopath.md and docs/lookup.md say where the two differ"
}

// ways are the hops of both lookups, each once, from the pod on.
func ways(a, b []v1alpha1.LookupHop) (list []v1alpha1.LookupHop) {
	for _, h := range slices.Concat(a, b) {
		list = appendNew(list, v1alpha1.LookupHop{From: h.From, To: h.To})
	}
	rank := func(h v1alpha1.LookupHop) int {
		return slices.Index([]string{atPod, atNodeCache, atClusterDNS}, h.From)
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.LookupHop) int { return rank(a) - rank(b) })
	return list
}

// count is the number of queries on a way, "-" if a lookup does not go there.
func count(way v1alpha1.LookupHop, hops []v1alpha1.LookupHop) string {
	for _, h := range hops {
		if h.From == way.From && h.To == way.To {
			if h.Derived {
				return strconv.Itoa(h.Queries) + " (derived)"
			}
			return strconv.Itoa(h.Queries)
		}
	}
	return "-"
}

func (c comparison) json(w io.Writer) error {
	var agree *bool
	if yes, known := c.agree(); known {
		agree = &yes
	}
	lines := json.NewEncoder(w)
	for _, p := range []lookupPrinter{c.plain, c.autopath} {
		l := p.lookedUp()
		l.Policy, l.Hops, l.Agree = string(p.policy), c.hops(p), agree
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
