// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
)

// merge is rules M1 to M4: the pod's entries follow the base, each value is kept
// once, and options are keyed by name. A dnsConfig that is there but empty still
// dedupes the base and rewrites its options; nil does not.
func (d *Decision) merge(c *DNSConfig) {
	if c == nil {
		return
	}
	d.step(ruleMerge)
	keys := d.rewriteOptions(len(c.Options))
	for e := range c.entries {
		if e.Kind == KindOption {
			d.setOption(&keys, c.Options[e.Source.Index].Name, e)
		} else {
			d.take(e)
		}
	}
	d.dedupe(KindNameserver, MaxNameservers)
	d.dedupe(KindSearch, MaxSearches)
}

// entries yields what the pod asks for, in order; c may be nil.
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

// dedupe keeps the first of equal entries, compared as text: FD00::A and fd00::a
// are two servers. Only the first limit+1 entries are compared with: what stands
// behind them is cut by the limit in any case, and a host file may be large.
func (d *Decision) dedupe(k Kind, limit int) {
	list := d.list(k)
	d.dropEach(list, ruleDuplicate, func(e *Entry, kept []Entry) bool {
		return contains(kept[:min(len(kept), limit+1)], e.Text)
	})
}

// dropEach drops the entries of list for which is holds; kept are those before them
// that stay.
func (d *Decision) dropEach(list *[]Entry, r Rule, is func(e *Entry, kept []Entry) bool) {
	n := 0
	for i := range *list {
		e := &(*list)[i]
		switch {
		case is(e, (*list)[:n]):
			d.drop(*e, r)
			continue
		case n != i:
			(*list)[n] = *e
		}
		n++
	}
	*list = (*list)[:n]
}

func contains(entries []Entry, text string) bool {
	for i := range entries {
		if entries[i].Text == text {
			return true
		}
	}
	return false
}

// rewriteOptions normalises the options of the base, whose keys end at the first
// ":" ("ndots:" becomes "ndots"), and returns the keys, with room for more.
func (d *Decision) rewriteOptions(more int) keyIndex {
	keys := keyIndex{keys: make([]string, 0, len(d.Options)+more)}
	for i := range d.Options {
		o := &d.Options[i]
		key, _, _ := strings.Cut(o.Text, ":")
		if len(o.Text) == len(key)+1 {
			o.Text = key
		}
		keys.add(key)
	}
	return keys
}

// setOption is rule M4, in a stable order where the kubelet's is random: an option
// of the base keeps its place, the pod's follow. The key of a pod's option is its
// whole name, so that a name with a colon is an option of its own.
func (d *Decision) setOption(keys *keyIndex, name string, e Entry) {
	if unsafe(KindOption, e.Text) {
		d.dropUnsafe(e)
	} else if place, found := keys.find(name); found {
		d.drop(d.Options[place], ruleOverriddenOption)
		d.Options[place] = e
	} else {
		keys.add(name)
		d.Options = append(d.Options, e)
	}
}

// keyIndex finds the places of keys. A handful is searched one by one; a pod may
// bring a hundred thousand.
type keyIndex struct {
	keys   []string
	places map[string]int // once there are many
}

func (x *keyIndex) add(key string) {
	const few = 16
	if x.places == nil && len(x.keys) == few {
		x.places = make(map[string]int, 4*few)
		for i, k := range x.keys {
			x.places[k] = i
		}
	}
	if x.places != nil {
		x.places[key] = len(x.keys)
	}
	x.keys = append(x.keys, key)
}

func (x *keyIndex) find(key string) (place int, found bool) {
	if x.places != nil {
		place, found = x.places[key]
		return place, found
	}
	place = slices.Index(x.keys, key)
	return place, place >= 0
}

func (d *Decision) dropUnsafe(e Entry) {
	d.drop(e, ruleUnsafeValue)
	d.find(Finding{
		Code: CodeUnsafeValue, Severity: SeverityError, EnforcedBy: EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("%s %q would break out of its line in resolv.conf and is dropped", e.Kind, e.Text),
		Field:   e.field(),
		Hint:    "remove newlines, NULs and spaces inside domains",
	})
}
