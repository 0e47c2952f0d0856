// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// merge is rules M1 to M4: the pod's entries follow the base, each value is kept
// once, and options are keyed by name. A dnsConfig that is there but empty still
// dedupes the base and rewrites its options; nil does not.
func (d *Decision) merge(c *DNSConfig) {
	if c == nil {
		return
	}
	d.step(Merge)
	options := d.rewriteOptions()
	for _, e := range c.entries() {
		if e.Kind == OptionKind {
			d.setOption(options, c.Options[e.Source.Index].Name, e)
		} else {
			d.take(e)
		}
	}
	d.dedupe(Nameserver, MaxNameservers)
	d.dedupe(Search, MaxSearches)
}

// entries returns what the pod asks for, in order; c may be nil.
func (c *DNSConfig) entries() []Entry {
	if c == nil {
		return nil
	}
	entries := make([]Entry, 0, len(c.Nameservers)+len(c.Searches)+len(c.Options))
	for i, s := range c.Nameservers {
		entries = append(entries, Entry{s, Nameserver, PodEntry, Source{FromPod, i}})
	}
	for i, s := range c.Searches {
		entries = append(entries, Entry{s, Search, PodEntry, Source{FromPod, i}})
	}
	for i, o := range c.Options {
		entries = append(entries, Entry{o.text(), OptionKind, PodOption, Source{FromPod, i}})
	}
	return entries
}

// dedupe keeps the first of equal entries, compared as text: FD00::A and fd00::a
// are two servers. Only the first limit+1 entries are compared with: what stands
// behind them is cut by the limit in any case, and a host file may be large.
func (d *Decision) dedupe(k Kind, limit int) {
	list := d.list(k)
	kept := (*list)[:0]
	for _, e := range *list {
		if contains(kept[:min(len(kept), limit+1)], e.Text) {
			d.drop(e, Duplicate)
			continue
		}
		kept = append(kept, e)
	}
	*list = kept
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
// ":" ("ndots:" becomes "ndots"), and returns their places by key.
func (d *Decision) rewriteOptions() map[string]int {
	places := make(map[string]int, len(d.Options))
	for i := range d.Options {
		o := &d.Options[i]
		name, value, _ := strings.Cut(o.Text, ":")
		if value == "" {
			o.Text = name
		}
		places[name] = i
	}
	return places
}

// setOption is rule M4, in a stable order where the kubelet's is random: an option
// of the base keeps its place, the pod's follow. The key of a pod's option is its
// whole name, so that a name with a colon is an option of its own.
func (d *Decision) setOption(places map[string]int, name string, e Entry) {
	if unsafe(OptionKind, e.Text) {
		d.dropUnsafe(e)
		return
	}
	place, found := places[name]
	if !found {
		places[name] = len(d.Options)
		d.Options = append(d.Options, e)
		return
	}
	d.drop(d.Options[place], OverriddenOption)
	d.Options[place] = e
}

func (d *Decision) dropUnsafe(e Entry) {
	d.drop(e, UnsafeValue)
	d.find(Finding{
		Code: CodeUnsafeValue, Severity: SeverityError, EnforcedBy: EnforcedByDNSConfigurer,
		Message: fmt.Sprintf("%s %q would not stay one value of one line in resolv.conf; it is left out", e.Kind, e.Text),
		Field:   e.field(),
		Hint:    "remove newlines, NULs and the blanks inside domains",
	})
}
