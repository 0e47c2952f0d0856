// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// WriteText writes a table of the hops with their numbers of queries, the two results,
// and whether they agree.
func (c *Comparison) WriteText(w io.Writer) error {
	q := c.base.question
	fmt.Fprintf(w, "# %s in %s looks up %s %s\n# %s\n", q.Library, c.base.pod, q.Name, q.typeName(), c.base.servers())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "queries\t%s\t%s\n", c.base.policy, c.autopath.policy)
	a, b := c.hops(c.base), c.hops(c.autopath)
	for _, hop := range mergeHops(a, b) {
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

// mergeHops returns the hops of both results, each once, from the pod on. Their counts
// are zero.
func mergeHops(a, b []v1alpha1.LookupHop) (list []v1alpha1.LookupHop) {
	for _, h := range slices.Concat(a, b) {
		list = appendNew(list, v1alpha1.LookupHop{From: h.From, To: h.To})
	}
	rank := func(h v1alpha1.LookupHop) int {
		return slices.Index([]string{hopPod, hopNodeCache, hopClusterDNS}, h.From)
	}
	slices.SortStableFunc(list, func(a, b v1alpha1.LookupHop) int { return rank(a) - rank(b) })
	return list
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
