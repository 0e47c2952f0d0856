// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
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

// Comparison is one lookup that was run with two policies.
type Comparison struct {
	base, autopath *Result // base has ClusterFirst or ClusterFirstWithHostNet
	node           policy.Node
}

// Found reports whether both results are known, not an error, and equal.
func (c *Comparison) Found() bool {
	agree, _ := c.agree()
	return agree && c.base.Found()
}

// Ignored returns what [Result.Ignored] returns for the two results, each line once.
func (c *Comparison) Ignored() (list []string) {
	for _, line := range slices.Concat(c.base.ignored, c.autopath.ignored) {
		list = appendNew(list, line)
	}
	return list
}

// agree reports whether the program receives the same addresses and records, in any
// order, or the same error. known is false if a result depends on a name that was not
// asked for.
func (c *Comparison) agree() (agree, known bool) {
	a, b := c.base, c.autopath
	if a.open != "" || b.open != "" {
		return false, false
	}
	sorted := func(list []netip.Addr) []netip.Addr {
		return slices.SortedFunc(slices.Values(list), netip.Addr.Compare)
	}
	return a.Error == b.Error && slices.Equal(sorted(a.Addresses), sorted(b.Addresses)) &&
		slices.Equal(c.records(a.Answers), c.records(b.Answers)), true
}

// records returns the records of an answer, without TTLs and without the alias that an
// expansion begins with.
func (c *Comparison) records(answer []dns.RR) (list []string) {
	var records []dns.RR
	for _, rr := range answer {
		if !dns.IsSubDomain(autopathDomain, rr.Header().Name) {
			rr = dns.Copy(rr)
			rr.Header().Ttl = 0
			records = append(records, rr)
		}
	}
	list = presentations(records)
	slices.Sort(list)
	return list
}

// WriteJSON writes two v1alpha1.LookupResult, each on one line.
func (c *Comparison) WriteJSON(w io.Writer) error {
	var agree *bool
	if yes, known := c.agree(); known {
		agree = &yes
	}
	encoder := json.NewEncoder(w)
	for _, r := range []*Result{c.base, c.autopath} {
		l := r.lookupResult()
		l.Policy, l.Hops, l.Agree = string(r.policy), c.hops(r), agree
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// The ends of a hop.
const (
	hopPod        = "pod"
	hopNodeCache  = "node cache"
	hopClusterDNS = "cluster DNS"
	hopUpstream   = "upstream"
)

// hops counts the queries of a result. All caches are empty before it: a node cache sends
// one query for each question of the pod, with a search list or without.
func (c *Comparison) hops(r *Result) []v1alpha1.LookupHop {
	var hops []v1alpha1.LookupHop
	var toCluster, toUpstream []dns.Question // of a node cache
	for _, q := range r.Queries {
		to, is := q.Server.String(), func(a netip.Addr) bool { return q.Server.Unmap() == a.Unmap() }
		if is(c.node.Autopath.NodeCache) {
			to = hopNodeCache
		} else if slices.ContainsFunc(c.node.ClusterDNS, is) {
			to = hopClusterDNS
		}
		i := slices.IndexFunc(hops, func(h v1alpha1.LookupHop) bool { return h.To == to })
		if i < 0 {
			i, hops = len(hops), append(hops, v1alpha1.LookupHop{From: hopPod, To: to})
		}
		hops[i].Queries++
		question := dns.Question{Name: dns.CanonicalName(q.Name), Qtype: q.Type}
		isOf := func(zone string) bool { return dns.IsSubDomain(zone, question.Name) }
		switch {
		case to != hopNodeCache:
		case slices.ContainsFunc([]string{dns.Fqdn(c.node.ClusterDomain), "in-addr.arpa.", "ip6.arpa.", autopathDomain}, isOf):
			toCluster = appendNew(toCluster, question)
		default:
			toUpstream = appendNew(toUpstream, question)
		}
	}
	if r.server != "" {
		return hops // the queries of that server are unknown
	}
	if n := len(toCluster); n > 0 {
		hops = append(hops, v1alpha1.LookupHop{From: hopNodeCache, To: hopClusterDNS, Queries: n, Derived: true})
	}
	if n := len(toUpstream); n > 0 {
		hops = append(hops, v1alpha1.LookupHop{From: hopNodeCache, To: hopUpstream, Queries: n, Derived: true})
	}
	n := r.forwarded
	if !slices.ContainsFunc(toCluster, func(q dns.Question) bool { return dns.IsSubDomain(autopathDomain, q.Name) }) {
		n = max(0, n-len(toUpstream)) // without an expansion the node cache forwards these itself
	}
	if n == 0 && len(toUpstream) > 0 {
		return hops
	}
	return append(hops, v1alpha1.LookupHop{From: hopClusterDNS, To: hopUpstream, Queries: n, Derived: n > 0 && len(r.upstream) == 0})
}

// autopathDomain is the domain of the names with a search list.
const autopathDomain = policy.DefaultAutopathSuffix + "."

// WriteText writes a table of the hops with their numbers of queries, the two results,
// and whether they agree.
func (c *Comparison) WriteText(w io.Writer) error {
	q := c.base.question
	fmt.Fprintf(w, "# %s in %s looks up %s %s\n# %s\n", q.Library, c.base.pod, q.Name, q.typeName(), c.base.servers())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "queries\t%s\t%s\n", c.base.policy, c.autopath.policy)
	a, b := c.hops(c.base), c.hops(c.autopath)
	var both []v1alpha1.LookupHop // each once, from the pod on
	for _, h := range slices.Concat(a, b) {
		both = appendNew(both, v1alpha1.LookupHop{From: h.From, To: h.To})
	}
	slices.SortStableFunc(both, func(a, b v1alpha1.LookupHop) int {
		ends := []string{hopPod, hopNodeCache, hopClusterDNS}
		return slices.Index(ends, a.From) - slices.Index(ends, b.From)
	})
	for _, hop := range both {
		fmt.Fprintf(table, "%s -> %s\t%s\t%s\n", hop.From, hop.To, countText(hop, a), countText(hop, b))
	}
	table.Flush() // the last write returns the same error
	remarks := [][]string{c.base.remarks(), c.autopath.remarks()}
	var shared []string
	for i, r := range []*Result{c.base, c.autopath} {
		fmt.Fprintf(w, "%s: %s\n", r.policy, strings.Join(r.resultLines(), ", "))
		for _, remark := range remarks[i] {
			if slices.Contains(remarks[1-i], remark) {
				shared = appendNew(shared, remark)
				continue
			}
			fmt.Fprintf(w, "# %s\n", remark)
		}
	}
	_, err := fmt.Fprintf(w, "# %s\n", strings.Join(append(shared, c.conclusion()), "\n# "))
	return err
}

func (c *Comparison) conclusion() string {
	agree, known := c.agree()
	switch {
	case !known && c.base.open == c.autopath.open:
		return "both depend on " + c.base.open
	case !known:
		return "unknown whether they agree"
	case agree && !c.Found():
		return "both find nothing"
	case agree:
		return "they agree"
	}
	return "they do not agree: see docs/dns.md and docs/debugging.md for the differences"
}

// countText returns the number of queries of a hop, "-" if a result does not have it.
func countText(hop v1alpha1.LookupHop, hops []v1alpha1.LookupHop) string {
	i := slices.IndexFunc(hops, func(h v1alpha1.LookupHop) bool { return h.From == hop.From && h.To == hop.To })
	switch {
	case i < 0:
		return "-"
	case hops[i].Derived:
		return strconv.Itoa(hops[i].Queries) + " (derived)"
	}
	return strconv.Itoa(hops[i].Queries)
}
