// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver"
)

// rewriteStanza is a stanza of the plugin rewrite.
type rewriteStanza struct {
	continues bool
	kind      string // name, or type, ttl and so on, which have only this field
	match     string // exact, prefix, suffix, substring or regex
	from, to  string // names in lower case with a final dot, or a regular expression and such a name
	answers   string // the options of answer: auto, or name and value with their arguments
}

// parseRewrite returns a stanza, and why CoreDNS refuses it; "": it does not.
func parseRewrite(d Directive) (s rewriteStanza, problem string) {
	words := d.Args
	if len(words) < 2 {
		for _, line := range d.Body {
			words = append(append(slices.Clip(words), line.Name), line.Args...)
		}
	}
	if len(words) > 0 && slices.Contains([]string{"stop", "continue"}, strings.ToLower(words[0])) {
		s.continues, words = strings.EqualFold(words[0], "continue"), words[1:]
	}
	if len(words) == 0 {
		return s, "a rule is missing"
	}
	s.kind, words = strings.ToLower(words[0]), words[1:]
	switch {
	case !slices.Contains(rewriteKinds, s.kind):
		return s, fmt.Sprintf("%q: want one of %s", s.kind, strings.Join(rewriteKinds, ", "))
	case s.kind != "name":
		return s, ""
	case len(words) < 2:
		return s, "an argument is missing"
	case len(words) == 2:
		words = append([]string{"exact"}, words...)
	}
	s.match, s.from, s.to = strings.ToLower(words[0]), words[1], normalName(words[2])
	if !slices.Contains([]string{"exact", "prefix", "suffix", "substring", "regex"}, s.match) {
		return s, fmt.Sprintf("%q: want exact, prefix, suffix, substring or regex", words[0])
	}
	if s.match != "regex" {
		s.from = normalName(s.from)
	} else if problem = checkGroups(s.from, s.to); problem != "" {
		return s, problem
	}
	words = words[3:]
	if s.match == "regex" && len(words) > 0 && words[0] == "metadata" {
		words = words[1:]
	}
	s.answers = strings.Join(words, " ")
	return s, checkAnswerOptions(words)
}

var rewriteKinds = []string{"name", "class", "type", "edns0", "ttl", "cname", "rcode"}

// normalName returns a name as CoreDNS reads it.
func normalName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) + "." }

// checkGroups returns why CoreDNS refuses a regular expression with a replacement.
func checkGroups(pattern, to string) string {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err.Error()
	}
	used := 0
	for i := range 101 {
		if strings.Contains(to, "{"+strconv.Itoa(i)+"}") {
			used++
		}
	}
	if used > re.NumSubexp() {
		return fmt.Sprintf("%q has more groups than %q", to, pattern)
	}
	return ""
}

// checkAnswerOptions returns why CoreDNS refuses what follows the names of a rule.
func checkAnswerOptions(words []string) string {
	isAuto, hasName := false, false
	for first := true; len(words) > 0; first = false {
		if words[0] == "answer" {
			words = words[1:]
		} else if first {
			return fmt.Sprintf("%q: want answer", words[0])
		}
		switch {
		case len(words) > 0 && words[0] == "auto":
			isAuto, words = true, words[1:]
		case len(words) > 2 && (words[0] == "name" || words[0] == "value"):
			if problem := checkGroups(words[1], words[2]); problem != "" {
				return problem
			}
			hasName, words = hasName || words[0] == "name", words[3:]
		default:
			return "answer: want auto, name REGEX NAME or value REGEX NAME"
		}
	}
	if isAuto && hasName {
		return "answer auto and answer name exclude each other"
	}
	return ""
}

// rewrite converts a stanza of the plugin rewrite, the last one of its block or not.
func (c *converter) rewrite(b *Block, d Directive, isLast bool) {
	s, _ := parseRewrite(d)
	switch {
	case s.kind != "name":
		c.changes(d, "rewrite %s: has no counterpart", s.kind)
		return
	case s.match == "substring":
		c.changes(d, "rewrite name substring: has no counterpart: write a regex")
		return
	case s.continues && !isLast:
		c.changes(d, "rewrite continue: the first rule that matches is the last one: write one rule for both, left out")
		return
	case s.match != "exact" && s.answers == "":
		c.note(d, "rewrite without answer: CoreDNS answers with the other name, and most clients discard that; here it is mapped back")
	case s.answers != "" && s.answers != "answer auto":
		c.note(d, "rewrite %s: here all names in answers are mapped back", s.answers)
	}
	switch {
	case s.match == "suffix" && !strings.HasPrefix(s.from, "."):
		c.note(d, "rewrite name suffix %s: it also matches x%s", s.from, s.from)
	case s.match == "regex" && !(strings.HasPrefix(s.from, "^") && strings.HasSuffix(s.from, "$")):
		c.note(d, "rewrite name regex %s: it also matches longer names: write ^ and $ around it if that is not meant", s.from)
	}
	rule, domain := s.rule()
	if !c.rewritesOwn(b, d, rule, domain) {
		return
	}
	target := strings.Trim(rule.To[strings.LastIndex(rule.To, "}")+1:], "*.")
	isOwn := c.blockOf(target) == b || len(b.Find("kubernetes")) > 0 && isWithin(target, c.domain)
	if target != "" && !isOwn {
		c.changes(d, "rewrite to %s: CoreDNS asks the plugins of this block, here the name is looked up as any other", target)
	}
	if err := new(dnsserver.Rules).AddRewrite(dnsserver.Rewrite(rule)); err != nil {
		c.changes(d, "%s: has no counterpart: %v", d, err)
		return
	}
	c.addRule("rewrite", rule, d)
}

// rule returns the rewrite, and the domain of the names that it matches; "": not known.
func (s *rewriteStanza) rule() (rule v1alpha1.Rewrite, domain string) {
	from, to := strings.TrimSuffix(s.from, "."), strings.TrimSuffix(s.to, ".")
	rule.To = to
	switch {
	case s.match == "exact":
		rule.Name = from
		return rule, from
	case s.match == "prefix":
		rule.Regex, rule.To = "^"+regexp.QuoteMeta(s.from)+"(.*)$", s.to+"{1}"
		return rule, ""
	case s.match == "suffix" && strings.HasPrefix(from, ".") && strings.HasPrefix(to, "."):
		rule.Name, rule.To = "*"+from, "*"+to
		return rule, strings.TrimPrefix(from, ".")
	case s.match == "suffix":
		rule.Regex, rule.To = "^(.*)"+regexp.QuoteMeta(s.from)+"$", "{1}"+to
		return rule, strings.TrimPrefix(from, ".")
	}
	rule.Regex = s.from
	if strings.HasSuffix(to, "}") {
		rule.To = s.to // a group may end with a dot, and two dots are not a valid name in CoreDNS
	}
	if m := fixedTail.FindStringSubmatch(s.from); m != nil {
		domain = strings.ReplaceAll(m[1], `\.`, ".")
	}
	return rule, domain
}

// fixedTail matches the end of a regular expression that is labels in plain text, after a dot.
var fixedTail = regexp.MustCompile(`\\\.((?:[a-zA-Z0-9_-]+\\\.)*[a-zA-Z0-9_-]+)(?:\\\.)?\$?$`)

// rewritesOwn notes what the names of other blocks mean for a rule. It reports false for a rule without effect.
func (c *converter) rewritesOwn(b *Block, d Directive, rule v1alpha1.Rewrite, domain string) bool {
	isOwn := c.blockOf(domain) == b
	related := func(z string) bool { return isWithin(domain, z) || isWithin(z, domain) }
	switch {
	case domain == "" && !slices.Contains(b.zones(), ""):
		c.changes(d, "rewrite in the zone %s: names of all zones are rewritten", strings.Join(b.zones(), ", "))
	case domain != "" && !isOwn && !slices.ContainsFunc(b.zones(), related):
		c.note(d, "%s: the name is not in the zone of its block: never has an effect, left out", d)
		return false
	case domain != "" && !isOwn && rule.Name != "" && !strings.HasPrefix(rule.Name, "*"):
		c.note(d, "%s: the name is in the zone of another block: never has an effect, left out", d)
		return false
	case domain != "" && !isOwn:
		c.changes(d, "%s: names in %s outside of the zone of its block are rewritten, too", d, domain)
	}
	if others := c.zonesWithin(b, domain, d); len(others) > 0 && rule.Name == "" {
		c.note(d, "rewrite: names in %s are rewritten, too, if they match", strings.Join(others, ", "))
	} else if len(others) > 0 && strings.HasPrefix(rule.Name, "*") {
		c.changes(d, "rewrite: names in %s are rewritten, too: in CoreDNS other blocks have them", strings.Join(others, ", "))
	}
	return true
}
