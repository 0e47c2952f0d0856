// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
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
