// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// mergeConfig is the rules M1 to M4. The pod's entries follow the base, duplicates are
// dropped, and options are keyed by name. An empty dnsConfig, unlike nil, still drops the
// duplicates of the base and rewrites its options.
func (d *Decision) mergeConfig(config *DNSConfig, c *changes) {
	if config == nil {
		return
	}
	d.addStep(ruleMerge)
	for i := range d.Options { // "ndots:" of the base becomes "ndots"
		o := &d.Options[i]
		if key, value, found := strings.Cut(o.Text, ":"); found && value == "" {
			o.Text = key
		}
	}
	keys := indexOptions(d.Options, len(config.Options))
	for e := range config.entries {
		switch {
		case e.Kind != KindOption:
			d.add(e)
		case !d.omitsUnsafe(e):
			d.putOption(&keys, config.Options[e.Source.Index].Name, e, ruleOverriddenOption)
		}
	}
	d.movePodFirst(c)
	d.dedupe(KindNameserver, MaxNameservers)
	if c[changeFamilies] != nil { // sorts the nameservers before they are cut
		d.dedupe(KindNameserver, maxSorted)
	}
	d.dedupe(KindSearch, MaxSearches)
}

// entries yields the entries of c, in order; c may be nil.
func (c *DNSConfig) entries(yield func(Entry) bool) {
	if c == nil {
		return
	}
	for i, s := range c.Nameservers {
		if !yield(Entry{s, KindNameserver, rulePodEntry, Source{FromPod, int32(i)}}) {
			return
		}
	}
	for i, s := range c.Searches {
		if !yield(Entry{s, KindSearch, rulePodEntry, Source{FromPod, int32(i)}}) {
			return
		}
	}
	for i, o := range c.Options {
		if !yield(Entry{o.text(), KindOption, rulePodOption, Source{FromPod, int32(i)}}) {
			return
		}
	}
}

// dedupe drops all but the first of equal entries. Entries are compared as text: FD00::A and
// fd00::a are two servers. An entry is compared with the first limit+1 kept entries only, which
// bounds the work for a large host file: the limit drops the entries after them anyway.
func (d *Decision) dedupe(k Kind, limit int) {
	list := d.list(k)
	d.dropFunc(list, ruleDuplicate, func(e *Entry, kept []Entry) bool {
		return contains(kept[:min(len(kept), limit+1)], e.Text)
	})
}

// dropFunc drops the entries e of list for which del(e, kept) reports true, where kept holds
// the entries before e that stay. It reports whether it has dropped any.
func (d *Decision) dropFunc(list *[]Entry, r Rule, del func(e *Entry, kept []Entry) bool) bool {
	n, all := 0, len(*list)
	for i := range *list {
		e := &(*list)[i]
		switch {
		case del(e, (*list)[:n]):
			d.drop(*e, r)
			continue
		case n != i:
			(*list)[n] = *e
		}
		n++
	}
	*list = (*list)[:n]
	return n < all
}

func contains(entries []Entry, text string) bool {
	for i := range entries {
		if entries[i].Text == text {
			return true
		}
	}
	return false
}

// indexOptions returns an index of the keys of options, with capacity for n more. A key ends
// at the first ":".
func indexOptions(options []Entry, n int) keyIndex {
	keys := keyIndex{keys: make([]string, 0, len(options)+n)}
	for i := range options {
		key, _, _ := strings.Cut(options[i].Text, ":")
		keys.add(key)
	}
	return keys
}

// putOption adds e, whose key is name. If there is an option with this key, e takes its place, and
// that option is dropped by a rule. So in rule M4 the order is stable, where the kubelet's is random:
// an option of the base keeps its place and the pod's options follow. The key of a pod's option is
// its whole name, even if it contains a colon.
func (d *Decision) putOption(keys *keyIndex, name string, e Entry, by Rule) {
	if i, found := keys.index(name); found {
		d.drop(d.Options[i], by)
		d.Options[i] = e
		return
	}
	keys.add(name)
	if len(d.Options) == fewKeys { // growing step by step takes a third of the time for 190,000 options
		d.Options = slices.Grow(d.Options, cap(keys.keys)-fewKeys)
	}
	d.Options = append(d.Options, e)
}

// fewKeys is the number of keys that are searched linearly.
const fewKeys = 16

// keyIndex maps keys to their indexes. It searches a few keys linearly and more in a map: a
// pod may have a hundred thousand options.
type keyIndex struct {
	keys    []string
	indexes map[string]int // nil for a few keys
}

func (x *keyIndex) add(key string) {
	if len(x.keys) == fewKeys {
		x.indexes = make(map[string]int, cap(x.keys))
		for i, k := range x.keys {
			x.indexes[k] = i
		}
	}
	if x.indexes != nil {
		x.indexes[key] = len(x.keys)
	}
	x.keys = append(x.keys, key)
}

func (x *keyIndex) index(key string) (i int, found bool) {
	if x.indexes != nil {
		i, found = x.indexes[key]
		return i, found
	}
	i = slices.Index(x.keys, key)
	return i, i >= 0
}

// The kubelet's limits of a pod's resolv.conf.
const (
	MaxNameservers = 3            // MAXNS in resolv.h; k8s.io/kubernetes/pkg/apis/core/validation MaxDNSNameservers
	MaxSearches    = 32           // MaxDNSSearchPaths there; in the host's own file, three less for the cluster's domains
	MaxSearchLine  = 2048         // bytes of the domains joined by spaces; MaxDNSSearchListChars there
	MaxDomain      = fqdn.MaxName // bytes, with a trailing dot; longer domains made glibc 2.28 abort
)

// applyLimits is the rules L1 and L2, in the kubelet's order. An entry that one limit drops
// does not come back if a later limit drops other entries.
func (d *Decision) applyLimits() {
	before := len(d.Dropped)
	if len(d.Nameservers) > MaxNameservers {
		d.truncate(&d.Nameservers, MaxNameservers, RuleServerLimit)
		d.addStep(RuleServerLimit)
		field := limitField(KindNameserver, d.Dropped[before:])
		d.addFinding(Finding{
			Code: CodeServerLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " +
				strings.Join(d.Config().Nameservers, " "),
			Field: field, Hint: d.serverLimitHint(field),
		})
	}
	before = len(d.Dropped)
	if d.limitSearches() {
		d.addFinding(Finding{
			Code: CodeSearchLimit, Severity: SeverityWarning, EnforcedBy: EnforcedByNode, Reason: reasonForming,
			Message: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " +
				strings.Join(d.Config().Searches, " "),
			Field: limitField(KindSearch, d.Dropped[before:]),
			Hint: fmt.Sprintf("use at most %d domains of %d bytes and %d bytes in total, including "+
				"those of the cluster and the host", MaxSearches, MaxDomain, MaxSearchLine),
		})
	}
}

// limitField returns the field to shorten when limits drop entries of a list: the pod's list if one
// of them is the pod's, otherwise the field of the first. A decision without findings has no dropped
// entries.
func limitField(list Kind, dropped []Entry) string {
	fromPod := func(e Entry) bool { return e.Source.Origin == FromPod }
	if len(dropped) == 0 || slices.ContainsFunc(dropped, fromPod) {
		return "spec.dnsConfig." + kinds[list].list
	}
	return dropped[0].field()
}

// serverLimitHint returns which nameservers to remove. With the policy None all are the pod's.
func (d *Decision) serverLimitHint(field string) string {
	advice := " and the node's come first: remove some, or use dnsPolicy None"
	switch {
	case field == FieldClusterDNS:
		advice = ", so the others are never used: remove them from the KubeletConfiguration"
	case field == FieldResolvConf:
		advice = ", so the others are never used: remove them from " + d.hostFile
	case slices.Contains(d.Steps, ruleBaseNone):
		advice = ", so the others are never used: remove them"
	}
	return fmt.Sprintf("a resolver queries at most %d servers%s", MaxNameservers, advice)
}

// limitSearches reports whether it dropped an entry.
func (d *Decision) limitSearches() bool {
	before := len(d.Searches)
	if before > MaxSearches {
		d.addStep(RuleSearchLimit)
		d.truncate(&d.Searches, MaxSearches, RuleSearchLimit)
	}

	if d.dropFunc(&d.Searches, RuleDomainTooLong, func(s *Entry, _ []Entry) bool { return len(s.Text) > MaxDomain }) {
		d.addStep(RuleDomainTooLong)
	}
	n := len(d.Searches)
	for length := joinedLen(d.Searches); length > MaxSearchLine; n-- {
		length -= len(d.Searches[n-1].Text) + 1
	}
	if n < len(d.Searches) {
		d.addStep(RuleSearchLineTooLong)
		d.truncate(&d.Searches, n, RuleSearchLineTooLong)
	}
	return len(d.Searches) < before
}

// truncate drops the entries of list after the first n.
func (d *Decision) truncate(list *[]Entry, n int, r Rule) {
	for _, e := range (*list)[n:] {
		d.drop(e, r)
	}
	*list = (*list)[:n]
}

func joinedLen(entries []Entry) int {
	n := max(0, len(entries)-1)
	for i := range entries {
		n += len(entries[i].Text)
	}
	return n
}
