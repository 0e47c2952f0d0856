// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

func (c *converter) hosts(b *Block, d Directive) {
	zones := b.zones()
	if len(d.Args) > 1 {
		zones = lowerNames(d.Args[1:])
	}
	switch {
	case len(d.Args) == 0:
		c.note(d, "hosts: CoreDNS also reads /etc/hosts of its container: not taken over")
	case !slices.Contains(zones, ""):
		c.changes(d, "hosts %s: the names of a file are not limited to zones: write the entries into hosts.entries", d.Args[0])
	default:
		c.set("hosts.file", d.Args[0], d)
		c.note(d, "hosts %s: mount this file into the pods of the server", d.Args[0])
		for i := range c.blocks {
			if other := &c.blocks[i]; !slices.Contains(other.zones(), "") {
				c.note(d, "hosts %s: its names in %s are answered, too", d.Args[0], strings.Join(other.zones(), ", "))
			}
		}
	}
	falls, ttl, source := false, defaultHostsTTL, d
	for _, property := range d.Body {
		switch property.Name {
		case "fallthrough":
			falls = len(property.Args) == 0
		case "ttl":
			ttl, source = number(property.Args[0]), property
		case "reload": // every 5 s
		case "no_reverse":
			c.changes(property, "hosts no_reverse: reverse names of the addresses are answered")
		default:
			c.host(b, zones, property)
		}
	}
	c.set("hosts.ttl", min(ttl, cacheTTL(b)), source)
	if !falls {
		c.changes(d, "hosts without fallthrough: CoreDNS answers SERVFAIL to names that it does not have, here they are forwarded")
	}
}

func (c *converter) chaos(b *Block, d Directive) {
	switch version := append(slices.Clip(d.Args), chaosVersion)[0]; {
	case !slices.Contains(b.zones(), ""):
		c.note(d, "%s: version.bind is not in the zone of its block: never has an effect, left out", d)
	case len(version) > 255:
		c.changes(d, "chaos: the version has %d octets: want at most 255", len(version))
	default:
		c.set("chaos", version, d)
		c.note(d, "chaos: authors.bind gets REFUSED")
	}
}

// chaosVersion is the version that CoreDNS discloses without another one.
const chaosVersion = "CoreDNS-1.15.0"

// file converts a stanza of the plugin file. It reports whether it answers all names of the block.
func (c *converter) file(b *Block, d Directive) (takesAll bool) {
	zones := c.stanzaZones(b, d, d.Args[1:])
	for _, z := range zones {
		if z == "" {
			c.changes(d, "%s: the zone . cannot have a file", d)
			continue
		}
		c.stubs = append(c.stubs, stub{Zone: z, File: d.Args[0], from: d})
		c.note(d, "file %s: mount this file into the pods of the server; signatures and records of servers are left out", d.Args[0])
	}
	for _, property := range d.Body {
		c.explain(property, "file "+property.Name)
	}
	isOther := func(z string) bool { return !slices.Contains(zones, z) }
	return !slices.ContainsFunc(b.zones(), isOther) && len(d.Find("fallthrough")) == 0
}

// dns64 converts the plugin dns64, which stands above all that answer.
func (c *converter) dns64(b *Block, d Directive) {
	prefix, options := "64:ff9b::/96", d.Body
	if len(d.Args) > 0 { // CoreDNS 1.15.0 then reads no other properties than prefix
		prefix, options = d.Args[0], nil
	}
	for _, property := range d.Find("prefix") {
		prefix = property.Args[0]
	}
	if _, err := dnsserver.ParseDNS64Prefix(prefix); err != nil {
		c.changes(d, "dns64: %v", err)
		return
	}
	c.set("dns64Prefix", prefix, d)
	for _, property := range find(options, "translate_all") {
		c.addRule("answers", v1alpha1.Answer{Type: "AAAA"}, property)
	}
	if len(find(options, "allow_ipv4")) == 0 {
		c.changes(d, "dns64: clients over IPv4 get these records, too")
	}
	for i := range c.blocks {
		if other := &c.blocks[i]; len(other.Find("dns64")) == 0 {
			c.changes(d, "dns64: names in %s are translated, too", strings.Join(other.zones(), ", "))
		}
	}
}

// externalZones converts the plugin k8s_external, which stands above kubernetes and forward.
func (c *converter) externalZones() {
	for i := range c.blocks {
		b := &c.blocks[i]
		for _, d := range b.Find("k8s_external") {
			for _, z := range c.stanzaZones(b, d, d.Args) {
				c.externalZone(d, z)
			}
			for _, property := range d.Body {
				c.explain(property, "k8s_external "+property.Name)
			}
		}
	}
}

func (c *converter) externalZone(d Directive, z string) {
	if z == "" || z == c.domain || isReverse(z) {
		c.changes(d, "%s: the zone %q cannot be external", d, z)
		return
	}
	c.addRule("externalZones", z, d)
	c.stubs = slices.DeleteFunc(c.stubs, func(s stub) bool {
		if s.Zone == z {
			c.note(s.from, "%s: never asked in the zone %s, which is external: left out", s.from, z)
		}
		return s.Zone == z
	})
}

// The TTLs of CoreDNS without other values, in seconds.
const (
	defaultHostsTTL = 3600
	defaultTTL      = 5
	maxCacheTTL     = 3600
)

// cacheTTL returns the largest TTL that the cache of a block lets through: it is above hosts and kubernetes, and limits
// the TTLs of zones that are not cached, too.
func cacheTTL(b *Block) int {
	ttl := maxCacheTTL
	for _, cache := range b.Find("cache") {
		if len(cache.Args) > 0 && number(cache.Args[0]) > 0 {
			ttl = number(cache.Args[0])
		}
		for _, success := range cache.Find("success") {
			if len(success.Args) > 1 {
				ttl = number(success.Args[1])
			}
		}
	}
	return ttl
}

// host converts an entry: an address and its names.
func (c *converter) host(b *Block, zones []string, d Directive) {
	address, _, _ := strings.Cut(d.Name, "%")
	addr, err := netip.ParseAddr(address)
	if err != nil || len(d.Args) == 0 {
		c.note(d, "hosts: %s: not an address with names: CoreDNS ignores it, left out", d)
		return
	}
	words := []string{addr.String()}
	for _, text := range d.Args {
		name := normalZone(text)
		if !c.isName(text, d) {
			continue
		}
		if c.blockOf(name) == b && slices.ContainsFunc(zones, func(z string) bool { return isWithin(name, z) }) {
			words = append(words, name)
		} else {
			c.note(d, "hosts: %s is not in the zone of its block: never has an effect, left out", text)
		}
	}
	if len(words) == 1 {
		return
	}
	if reverse, err := dns.ReverseAddr(addr.Unmap().String()); err == nil && c.blockOf(strings.TrimSuffix(reverse, ".")) != b {
		c.changes(d, "hosts: the reverse name of %s is answered, too: in CoreDNS another block has it", addr)
	}
	c.addItem("hosts.entries", strings.Join(words, " "), d)
}

// isName reports whether a query can have a name. CoreDNS also accepts others.
func (c *converter) isName(text string, d Directive) bool {
	if _, err := fqdn.ParseName(text); err != nil {
		c.note(d, "%s: %q %v: never has an effect, left out", d.Name, text, err)
		return false
	}
	return true
}

// blockOf returns the block with the longest zone that contains a name, nil if there is none.
func (c *converter) blockOf(name string) (best *Block) {
	longest := -1
	for i := range c.blocks {
		for _, z := range c.blocks[i].zones() {
			if isWithin(name, z) && len(z) > longest {
				best, longest = &c.blocks[i], len(z)
			}
		}
	}
	return best
}

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
	zones := b.zones()
	if len(names) > 0 {
		valid := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.isName(name, d) })
		zones = b.common(lowerNames(valid))
	}
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
		if b := &c.blocks[i]; len(b.Find("log")) == 0 && slices.ContainsFunc(b.zones(), isLogged) {
			c.note(l.from, "%s: here also for names in %s", l.from, strings.Join(b.zones(), ", "))
		}
	}
}
