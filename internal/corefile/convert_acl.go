// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// zoneBlock is a zone with a block that has it.
type zoneBlock struct {
	zone  string
	block *Block
}

// aclRules converts the plugin acl, whose rules are for all blocks here: those of longer zones come first. After them a rule
// allows what they do not match, because the rules of other blocks are not for these names in CoreDNS.
func (c *converter) aclRules() {
	var all []zoneBlock
	for i := range c.blocks {
		for _, z := range c.blocks[i].zones() {
			all = append(all, zoneBlock{z, &c.blocks[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b zoneBlock) int { return cmp.Compare(len(b.zone), len(a.zone)) })
	for i, own := range all {
		for _, d := range own.block.Find("acl") {
			c.acl(own, d)
		}
		isAbove := func(other zoneBlock) bool { return isWithin(own.zone, other.zone) && len(other.block.Find("acl")) > 0 }
		if slices.ContainsFunc(all[i+1:], isAbove) {
			head := Directive{File: own.block.File, Line: own.block.Line, Name: strings.Join(own.block.Keys, " ")}
			c.addRule("acl", v1alpha1.ACLRule{Action: "allow", Zone: own.zone}, head)
		}
	}
}

// acl converts a stanza for the names in a zone of its block.
func (c *converter) acl(own zoneBlock, d Directive) {
	for _, z := range c.stanzaZones(own.block, d, d.Args) {
		if !isWithin(z, own.zone) {
			continue
		}
		for _, property := range d.Body {
			rule, _ := aclRule(property)
			rule.Zone = z
			if err := new(dnsserver.Rules).AddACL(dnsserver.ACLRule(rule)); err != nil {
				c.changes(property, "acl %s: has no counterpart: %v", property, err)
				continue
			}
			c.addRule("acl", rule, property)
		}
	}
}

// aclRule returns the rule of a property of the plugin acl without its zone, or why CoreDNS refuses it.
func aclRule(d Directive) (rule v1alpha1.ACLRule, problem string) {
	rule.Action = d.Name
	section, isEmpty, matchesAll := "", false, map[string]bool{}
	for _, arg := range d.Args {
		name := strings.ToLower(arg)
		network, err := parseSource(arg)
		_, isType := dns.StringToType[arg]
		switch {
		case name != "type" && name != "net" && section == "":
			return rule, fmt.Sprintf("%q: want type or net", arg)
		case name == "type" || name == "net":
			if isEmpty {
				return rule, section + ": an argument is missing"
			}
			section, isEmpty = name, true
			continue
		case arg == "*":
			matchesAll[section] = true
		case matchesAll[section]: // CoreDNS does not read them
		case section == "type" && isType:
			rule.Types = append(rule.Types, arg)
		case section == "net" && err == nil:
			rule.Networks = append(rule.Networks, network.String())
		default:
			return rule, fmt.Sprintf("%q: not a valid %s", arg, section)
		}
		isEmpty = false
	}
	if isEmpty {
		return rule, section + ": an argument is missing"
	}
	if matchesAll["type"] {
		rule.Types = nil
	}
	if matchesAll["net"] {
		rule.Networks = nil
	}
	return rule, ""
}

// parseSource parses a network or an address.
func parseSource(text string) (netip.Prefix, error) {
	switch {
	case strings.Contains(text, "/"):
	case strings.Contains(text, ":"):
		text += "/128"
	default:
		text += "/32"
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}
