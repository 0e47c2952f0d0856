// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"strings"
)

// queryLog is what the stanzas of the plugin log select.
type queryLog struct {
	classes []string
	zones   []string // in lower case, without final dot; "" is the root
	from    Directive
}

// log converts a stanza of the plugin log. Its arguments are names and, last, a format, which has a brace: a single
// argument is always a name.
func (c *converter) log(b *Block, d Directive) {
	names := d.Args
	if last := len(names) - 1; last > 0 && strings.Contains(names[last], "{") {
		c.note(d, "log %s: the format of lines is fixed: docs/dns.md#query-log", names[last])
		names = names[:last]
	}
	zones := c.logZones(b, names, d)
	if len(zones) == 0 || len(names) == 1 && strings.Contains(names[0], "{") {
		c.note(d, "%s: no query has this name: never has an effect, left out", d)
		return
	}
	var classes []string
	for _, property := range d.Find("class") {
		classes = append(classes, property.Args...)
	}
	if len(classes) == 0 {
		classes = []string{"all"}
	}
	if c.queries.classes == nil {
		c.queries.from = d
	} else if !slices.Equal(c.queries.classes, classes) {
		c.note(d, "%s: the classes are the same for all zones, as in line %d", d, c.queries.from.Line)
	}
	c.queries.classes = append(c.queries.classes, classes...)
	c.queries.zones = append(c.queries.zones, zones...)
}

// logZones returns what the zones of a block and the names of a stanza have in common.
func (c *converter) logZones(b *Block, names []string, d Directive) []string {
	if len(names) == 0 {
		return c.zones(b)
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.isName(name, d) })
	return c.common(b, lowerNames(names))
}

// finishLog sets the fields of the query log.
func (c *converter) finishLog() {
	l := &c.queries
	if l.classes == nil {
		return
	}
	slices.Sort(l.classes)
	if l.classes = slices.Compact(l.classes); slices.Contains(l.classes, "all") || len(l.classes) == 3 {
		l.classes = []string{"all"}
	}
	c.set("queryLog.classes", l.classes, l.from)
	slices.Sort(l.zones)
	l.zones = slices.Compact(l.zones)
	if l.zones[0] != "" {
		c.set("queryLog.zones", l.zones, l.from)
	}
	for i := range c.blocks {
		isLogged := func(z string) bool {
			return slices.ContainsFunc(l.zones, func(logged string) bool { return isWithin(z, logged) })
		}
		if b := &c.blocks[i]; len(b.Find("log")) == 0 && slices.ContainsFunc(c.zones(b), isLogged) {
			c.note(l.from, "%s: here also for names in %s", l.from, strings.Join(c.zones(b), ", "))
		}
	}
}
