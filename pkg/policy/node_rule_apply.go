// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// applyNodeRule records that the node rule n has applied r.
func (d *Decision) applyNodeRule(r Rule, n *nodeRule) {
	d.addStep(r)
	d.NodeRules = append(d.NodeRules, AppliedRule{r, int(n.index)})
}

// source returns the source of the entries that r adds.
func (r *nodeRule) source() Source { return Source{FromNodeRule, r.index} }

// addOptions is rule R1. An option of the rule replaces the option of the base in its place.
func (d *Decision) addOptions(c *changes) {
	r := c[changeOptions]
	if r == nil {
		return
	}
	d.applyNodeRule(ruleOptions, r)
	keys := indexOptions(d.Options, len(r.Options))
	for _, text := range r.Options {
		name, _, _ := strings.Cut(text, ":")
		d.putOption(&keys, name, Entry{text, KindOption, ruleOption, r.source()}, ruleReplacedOption)
	}
}

// inheritOptions is rule R2. It adds the options of the host that the base does not have, and drops
// the others. If no node rule sets R2, it drops all by the rule instead.
func (d *Decision) inheritOptions(options []resolvconf.Entry, instead Rule, c *changes) {
	r := c[changeHostOptions]
	if r == nil {
		d.dropHostEntries(options, KindOption, instead)
		return
	}
	if len(options) > 0 {
		d.applyNodeRule(ruleHostOptions, r)
	}
	keys := indexOptions(d.Options, len(options))
	for i, o := range options {
		name, _, _ := strings.Cut(o.Text, ":")
		if _, found := keys.index(name); found {
			d.dropHostEntries(options[i:i+1], KindOption, ruleHostOptionOfBase)
		} else {
			keys.add(name)
			d.addHostEntries(options[i:i+1], KindOption, ruleHostOption)
		}
	}
}

// addHostSearches adds the search domains of the host by rule kept, except those that rule R3
// drops.
func (d *Decision) addHostSearches(searches []resolvconf.Entry, kept Rule, c *changes) {
	r := c[changeHostSearches]
	if r == nil {
		d.addHostEntries(searches, KindSearch, kept)
		return
	}
	dropped := false
	for i, s := range searches {
		if matchAny(r.searches, normalize(s.Text)) {
			d.addHostEntries(searches[i:i+1], KindSearch, kept)
		} else {
			dropped = true
			d.dropHostEntries(searches[i:i+1], KindSearch, ruleHostSearches)
		}
	}
	if dropped {
		d.applyNodeRule(ruleHostSearches, r)
	}
}

// dropUnreachable is rule R4.
func (d *Decision) dropUnreachable(pod *Pod, c *changes) {
	r := c[changeUnreachable]
	unreachable := func(e Entry) bool { return e.Source.Origin == FromHost && isOfNode(e.Text) }
	if r == nil || pod.HostNetwork || !slices.ContainsFunc(d.Nameservers, unreachable) {
		return
	}
	reachable := func(e Entry) bool { return !unreachable(e) }
	if !slices.ContainsFunc(d.Nameservers, reachable) && !pod.Config.hasNameserver() {
		d.applyNodeRule(ruleUnreachableKept, r)
		return
	}
	d.applyNodeRule(ruleUnreachable, r)
	d.dropFunc(&d.Nameservers, ruleUnreachable, func(e *Entry, _ []Entry) bool { return unreachable(*e) })
}

// hasNameserver reports whether c adds a nameserver to the base; c may be nil.
func (c *DNSConfig) hasNameserver() bool {
	return c != nil && slices.ContainsFunc(c.Nameservers, func(s string) bool { return !isUnsafe(KindNameserver, s) })
}

// isOfNode reports whether server is an address of the node itself, which the pod network does
// not lead to. A link-local address of IPv4 may belong to a node cache or to a cloud's
// resolver: pods reach it.
func isOfNode(server string) bool {
	a, err := netip.ParseAddr(server)
	a = a.Unmap()
	return err == nil && (a.IsLoopback() || a.Is6() && a.IsLinkLocalUnicast())
}

// addSubdomain is rule R7, if it is at the given place.
func (e *Engine) addSubdomain(d *Decision, pod *Pod, place Placement, c *changes) {
	r := c[changeSubdomain]
	if r == nil || r.SubdomainSearch != place || pod.Subdomain == "" || fqdn.LabelProblems(pod.Subdomain) != nil {
		return
	}
	d.applyNodeRule(ruleSubdomain, r)
	d.add(Entry{pod.Subdomain + "." + pod.Namespace + "." + e.svcDomain, KindSearch, ruleSubdomain, r.source()})
}

// movePodFirst is rule R6. It runs before duplicates are dropped, so that an entry of both the pod
// and the node has the pod's place.
func (d *Decision) movePodFirst(c *changes) {
	r := c[changeOrder]
	if r == nil {
		return
	}
	moved := false
	for _, list := range [...][]Entry{d.Nameservers, d.Searches} { // the pod's entries follow the base
		if i := slices.IndexFunc(list, func(e Entry) bool { return e.Source.Origin == FromPod }); i > 0 {
			moved = true
			copy(list, slices.Concat(list[i:], list[:i]))
		}
	}
	if moved {
		d.applyNodeRule(rulePodFirst, r)
	}
}

// dropDuplicates is rule R5. Texts that are not addresses are left to rule M1.
func (d *Decision) dropDuplicates(c *changes) {
	r := c[changeDuplicates]
	if r == nil || len(d.Nameservers) < 2 {
		return
	}
	seen := make(map[netip.Addr]bool, len(d.Nameservers))
	if d.dropFunc(&d.Nameservers, ruleDuplicateAddress, func(e *Entry, _ []Entry) bool {
		a, err := netip.ParseAddr(e.Text)
		a = a.Unmap()
		duplicate := err == nil && seen[a]
		seen[a] = true
		return duplicate
	}) {
		d.applyNodeRule(ruleDuplicateAddress, r)
	}
}

// maxSorted is the number of nameservers among which duplicates are dropped if rule R9 applies.
const maxSorted = 64

// selectFamilies is rule R9.
func (d *Decision) selectFamilies(pod *Pod, c *changes) {
	r := c[changeFamilies]
	switch {
	case r == nil || len(d.Nameservers) == 0:
		return
	case len(pod.IPs) == 0:
		d.applyNodeRule(ruleFamiliesUnknown, r)
		return
	}
	if r.ServerFamilies == FamiliesOnly {
		d.dropFamilies(pod, r)
	}
	sorted := false
	for run := d.Nameservers; len(run) > 0; {
		n := 1
		for n < len(run) && (run[n].Source.Origin == FromPod) == (run[0].Source.Origin == FromPod) {
			n++
		}
		byFamily := func(a, b Entry) int { return familyRank(pod.IPs, a.Text) - familyRank(pod.IPs, b.Text) }
		if !slices.IsSortedFunc(run[:n], byFamily) {
			sorted = true
			slices.SortStableFunc(run[:n], byFamily)
		}
		run = run[n:]
	}
	if sorted {
		d.applyNodeRule(ruleFamiliesSorted, r)
	}
}

// dropFamilies drops the nameservers of the node whose family the pod does not have, unless
// none would remain.
func (d *Decision) dropFamilies(pod *Pod, r *nodeRule) {
	foreign := func(e Entry) bool {
		return e.Source.Origin != FromPod && familyRank(pod.IPs, e.Text) == foreignFamily
	}
	usable := func(e Entry) bool { return familyRank(pod.IPs, e.Text) != foreignFamily }
	switch {
	case !slices.ContainsFunc(d.Nameservers, foreign):
	case !slices.ContainsFunc(d.Nameservers, usable):
		d.applyNodeRule(ruleFamiliesKept, r)
	default:
		d.applyNodeRule(ruleFamilies, r)
		d.dropFunc(&d.Nameservers, ruleFamilies, func(e *Entry, _ []Entry) bool { return foreign(*e) })
	}
}

// foreignFamily is the familyRank of a nameserver of a family that the pod does not have.
const foreignFamily = 2

// familyRank returns the place of the family of server in ips: 0 for the family of the first address,
// 1 for the other family if the pod has it. A text that is not an address has 1.
func familyRank(ips []netip.Addr, server string) int {
	a, err := netip.ParseAddr(server)
	if err != nil {
		return 1
	}
	is4 := a.Unmap().Is4()
	i := slices.IndexFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().Is4() == is4 })
	if i < 0 {
		return foreignFamily
	}
	return min(i, 1)
}

// maxGlob is the length of the longest pattern: it matches one domain.
const maxGlob = MaxDomain

// parseGlob parses a pattern of the letters, digits and punctuation of domains, and stars: each star matches any text,
// dots included, or none. The result matches normalized texts.
func parseGlob(s string) (g *regexp.Regexp, problem string) {
	switch {
	case s == "":
		return nil, "is empty"
	case len(s) > maxGlob:
		return nil, "is longer than a domain"
	case strings.Contains(s, "**"):
		return nil, "has two stars in a row, one matches any text"
	case strings.ContainsFunc(s, func(r rune) bool { return !isGlobRune(r) }):
		return nil, "has a character other than letters, digits, '-', '_', '.' and '*'"
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(normalize(s)), `\*`, "(?s:.*)") + "$"), ""
}

func isGlobRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.*", r)
}

// normalize returns a domain in lower case and without its final dot.
func normalize(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

// matchAny reports whether one of globs matches the normalized text.
func matchAny(globs []*regexp.Regexp, s string) bool {
	return slices.ContainsFunc(globs, func(g *regexp.Regexp) bool { return g.MatchString(s) })
}
