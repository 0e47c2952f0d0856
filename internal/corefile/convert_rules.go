// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// rewriteRules converts the plugins rewrite and template, whose rules are for all blocks here: those of longer zones come first.
func (c *converter) rewriteRules() {
	var sorted []*Block
	for i := range c.blocks {
		sorted = append(sorted, &c.blocks[i])
	}
	longest := func(b *Block) (n int) {
		for _, z := range b.zones() {
			n = max(n, len(z))
		}
		return n
	}
	slices.SortStableFunc(sorted, func(a, b *Block) int { return cmp.Compare(longest(b), longest(a)) })
	for _, b := range sorted {
		for _, d := range b.Find("template") {
			c.template(b, d)
		}
		stanzas := b.Find("rewrite")
		for i, d := range stanzas {
			c.rewrite(b, d, i == len(stanzas)-1)
		}
	}
}

// templateStanza is a stanza of the plugin template.
type templateStanza struct {
	rule              v1alpha1.Answer // without zone, regex and records
	patterns, records []string        // alternatives; templates
	falls             bool            // names that no pattern matches are looked up
}

func (c *converter) template(b *Block, d Directive) {
	switch class := d.Args[0]; {
	case class != "IN" && class != "ANY":
		c.changes(d, "template %s: only questions of class IN are answered", class)
		return
	case len(d.Find("expr"))+len(d.Find("var")) > 0:
		c.changes(d, "template with expr or var: has no counterpart: left out")
		return
	}
	t := templateStanza{rule: v1alpha1.Answer{Type: strings.TrimPrefix(d.Args[1], "ANY")}}
	for _, property := range d.Body {
		c.templateProperty(&t, property)
	}
	if t.rule.Type == "AAAA" && t.rule.Rcode == "NXDOMAIN" {
		t.rule.Rcode = ""
		c.note(d, "template NXDOMAIN for AAAA: here NODATA: NXDOMAIN denies the name, and some clients then do not use its A records")
	}
	for _, z := range c.ruleZones(b, d, d.Args[2:]) {
		if z == "" && len(t.records)+len(t.patterns) == 0 && t.rule.Type != "" {
			c.note(d, "template: no %s for all names, Services, too", t.rule.Type)
		}
		t.rule.Zone = z
		complete := true
		for _, regex := range append(t.patterns, "")[:max(len(t.patterns), 1)] {
			complete = c.answer(t, regex, cacheTTL(b), d) && complete
		}
		if len(t.patterns) > 0 && !t.falls && complete {
			c.addAnswer(v1alpha1.Answer{Zone: z, Type: t.rule.Type, Rcode: "SERVFAIL"}, d)
			c.note(d, "template without fallthrough: names that do not match get SERVFAIL: delete the rule to look them up")
		}
	}
}

func (c *converter) templateProperty(t *templateStanza, property Directive) {
	switch property.Name {
	case "match":
		t.patterns = append(t.patterns, property.Args...)
	case "answer":
		t.records = append(t.records, property.Args...)
	case "rcode":
		t.rule.Rcode = strings.TrimPrefix(property.Args[0], "NOERROR")
	case "fallthrough":
		t.falls = true
		if len(property.Args) > 0 {
			c.changes(property, "template %s: names of all zones fall through", property)
		}
	case "authority":
		if !strings.Contains(strings.Join(property.Args, " "), " SOA ") {
			c.note(property, "template %s: negative answers have the SOA record of the zone, others have none", property)
		}
	case "expr", "var": // see template
	case "additional":
		c.changes(property, "template %s: has no counterpart", property)
	default:
		c.explain(property, "template "+property.Name)
	}
}

// answer adds the rule of a template for one of its zones and patterns. It reports whether there is one.
func (c *converter) answer(t templateStanza, regex string, maxTTL int, d Directive) bool {
	rule := t.rule
	rule.Regex = regex
	if len(t.records) > 0 && rule.Type == "" {
		c.note(d, "template: records of other types than the question's are left out")
	}
	for _, text := range t.records {
		record, ok := recordOf(text, rule, maxTTL)
		if !ok {
			c.changes(d, "template answer %q: has no counterpart: the template is left out", text)
			return false
		}
		rule.Records = append(rule.Records, record)
	}
	return c.addAnswer(rule, d)
}

// addAnswer adds an answer, and reports false if the server would refuse it.
func (c *converter) addAnswer(a v1alpha1.Answer, d Directive) bool {
	if err := new(dnsserver.Rules).AddAnswer(dnsserver.Answer(a)); err != nil {
		c.changes(d, "%s: has no counterpart: %v", d, err)
		return false
	}
	c.addRule("answers", a, d)
	return true
}

// addRule adds an item to a list, once. Lists of rules are short.
func (c *converter) addRule(list string, rule any, d Directive) {
	items, _ := c.fields[list].value.([]item)
	if !slices.ContainsFunc(items, func(i item) bool { return flow(i.value) == flow(rule) }) {
		c.addItem(list, rule, d)
	}
}

func (c *converter) addItem(list string, value any, d Directive) {
	items, _ := c.fields[list].value.([]item)
	c.fields[list] = field{value: append(items, item{value, d})}
}

// ruleZones is stanzaZones for a stanza whose zones are those of all blocks here.
func (c *converter) ruleZones(b *Block, d Directive, args []string) []string {
	zones := c.stanzaZones(b, d, args)
	for _, z := range zones {
		if others := c.zonesWithin(b, z, d); len(others) > 0 {
			c.changes(d, "%s: names in %s get it, too: in CoreDNS other blocks have them", d, strings.Join(others, ", "))
		}
	}
	return zones
}

// stanzaZones returns the zones of a stanza that has a list of them, as far as its block has them.
func (c *converter) stanzaZones(b *Block, d Directive, args []string) (zones []string) {
	wanted := b.zones()
	if len(args) > 0 {
		wanted = (&Block{Keys: strings.Fields(strings.ToLower(strings.Join(args, " ")))}).zones()
	}
	for _, z := range b.common(wanted) {
		if c.blockOf(z) == b && !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	if len(zones) == 0 {
		c.note(d, "%s: its zones are not in the zone of its block: never has an effect, left out", d)
	}
	return zones
}

// lowerNames returns names in lower case without final dot.
func lowerNames(names []string) (list []string) {
	for _, name := range names {
		list = append(list, normalZone(name))
	}
	return list
}

// common returns what the zones of a block and others have in common.
func (b *Block) common(others []string) (zones []string) {
	for _, other := range others {
		for _, z := range b.zones() {
			switch {
			case isWithin(other, z):
				zones = append(zones, other)
			case isWithin(z, other):
				zones = append(zones, z)
			}
		}
	}
	return zones
}

// zonesWithin returns the zones of other blocks below a zone. Blocks that have the same stanza do not count.
func (c *converter) zonesWithin(b *Block, zone string, d Directive) (zones []string) {
	text := func(d Directive) string { return fmt.Sprint(d, d.Body) }
	for i := range c.blocks {
		other := &c.blocks[i]
		isSame := func(o Directive) bool { return text(o) == text(d) }
		if other == b || slices.ContainsFunc(other.Find(d.Name), isSame) {
			continue
		}
		for _, z := range other.zones() {
			if isWithin(z, zone) && z != zone {
				zones = append(zones, z)
			}
		}
	}
	return zones
}

// owner replaces the name of the question in a converted template.
const owner = "\x00"

// recordOf returns a record in the form of an answer for a template of CoreDNS with at most this TTL. ok is false for
// one that uses more than names, zones and groups, or whose owner is another name than that of the question.
func recordOf(text string, rule v1alpha1.Answer, maxTTL int) (record string, ok bool) {
	trees, err := parse.Parse("answer", text, "", "", map[string]any{"index": 0})
	if err != nil {
		return "", false
	}
	var b strings.Builder
	for _, node := range trees["answer"].Root.Nodes {
		switch node := node.(type) {
		case *parse.TextNode:
			b.Write(node.Text)
		case *parse.ActionNode:
			value, ok := valueOf(node.Pipe, rule)
			if !ok {
				return "", false
			}
			b.WriteString(value)
		default:
			return "", false
		}
	}
	words := strings.Fields(b.String())
	if len(words) < 3 || words[0] != owner {
		return "", false
	}
	if ttl, err := strconv.Atoi(words[1]); err == nil && ttl > maxTTL {
		words[1] = strconv.Itoa(maxTTL)
	}
	record = strings.Join(words[1:], " ")
	if rule.Regex == "" {
		record = strings.ReplaceAll(record, owner, "{0}")
	}
	return record, !strings.Contains(record, owner)
}

// valueOf returns what replaces an action of a template.
func valueOf(pipe *parse.PipeNode, rule v1alpha1.Answer) (text string, ok bool) {
	if len(pipe.Cmds) != 1 || len(pipe.Decl) > 0 {
		return "", false
	}
	switch words := strings.Fields(strings.NewReplacer("(", " ", ")", " ", `"`, "").Replace(pipe.Cmds[0].String())); {
	case len(words) == 3 && words[0] == "index" && (words[1] == ".Match" || words[1] == ".Group"):
		return "{" + words[2] + "}", true
	case len(words) != 1:
		return "", false
	case words[0] == ".Name":
		return owner, true
	case words[0] == ".Zone":
		return rule.Zone + ".", true
	case words[0] == ".Class":
		return "IN", true
	case words[0] == ".Type" && rule.Type != "":
		return rule.Type, true
	default:
		group, ok := strings.CutPrefix(words[0], ".Group.")
		return "{" + group + "}", ok && !strings.Contains(group, ".")
	}
}
