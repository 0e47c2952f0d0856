// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
)

// Rewrite replaces a name by another one. The reply has the name of the question: the names in its records, and the
// targets of aliases, MX, SRV and PTR records, are mapped back. The zero value is invalid.
type Rewrite struct {
	Name  string // a name; or "*." and a domain: all names below it, whatever the number of labels
	Regex string // if Name is empty: a regular expression, as of Answer

	// To is the name to look up. After a Name with "*." it begins with "*.", too, which stands for the same labels.
	// After a Regex it may have groups, such as {1}.
	To string
}

// rewriteRule is a compiled Rewrite.
type rewriteRule struct {
	pattern  *pattern // nil: name and to are used
	text     textTemplate
	name, to fqdn.Name // without "*."
	below    bool      // of names below name, not of name itself
}

// AddRewrite adds a rewrite after all others, or returns why it is invalid.
func (r *Rules) AddRewrite(w Rewrite) error {
	if len(r.rewrites) == maxRewrites {
		return fmt.Errorf("more than %d rewrites", maxRewrites)
	}
	rule, err := w.compile()
	if err != nil {
		return err
	}
	i, key := len(r.rewrites), rewriteKey{rule.name, rule.below}
	r.rewrites = append(r.rewrites, rule)
	if rule.pattern != nil {
		r.patterns = append(r.patterns, i)
	} else if _, ok := r.byName[key]; !ok {
		if r.byName == nil {
			r.byName = map[rewriteKey]int{}
		}
		r.byName[key] = i
	}
	return nil
}

// rewriteKey is what a rewrite without a regular expression matches.
type rewriteKey struct {
	name  fqdn.Name
	below bool
}

// rewriteOf returns the first rewrite that matches a name, whose presentation format is text; nil: none does.
func (r *Rules) rewriteOf(name fqdn.Name, text string) *rewrite {
	first := len(r.rewrites)
	for domain := name; domain != fqdn.Root && len(r.byName) > 0; _, domain = domain.Cut() {
		if i, ok := r.byName[rewriteKey{domain, domain != name}]; ok {
			first = min(first, i)
		}
	}
	for _, i := range r.patterns {
		if i > first {
			break
		}
		if w := r.rewrites[i].apply(name, text); w != nil {
			return w
		}
	}
	if first == len(r.rewrites) {
		return nil
	}
	return r.rewrites[first].apply(name, text)
}

func (w *Rewrite) compile() (rule rewriteRule, err error) {
	if (w.Name == "") == (w.Regex == "") {
		return rule, errors.New("want either a name or a regex")
	}
	to := w.To
	if w.Regex != "" {
		if rule.pattern, err = newPattern(w.Regex); err != nil {
			return rule, err
		}
		if rule.text, err = newTextTemplate(w.To, rule.pattern); err != nil {
			return rule, err
		}
		groups := make([]string, rule.pattern.NumSubexp()+1)
		for i := range groups {
			groups[i] = "a"
		}
		to = rule.text.expand(groups)
	}
	name, below := strings.CutPrefix(w.Name, "*.")
	if below {
		rule.below = true
		if to, below = strings.CutPrefix(w.To, "*."); !below {
			return rule, fmt.Errorf("%q: want a domain after *., as the name has", w.To)
		}
	}
	if rule.to, err = parseHostName(to); err != nil || w.Regex != "" {
		return rule, err
	}
	rule.name, err = parseHostName(name)
	return rule, err
}

// parseHostName parses a name other than the root.
func parseHostName(text string) (fqdn.Name, error) {
	name, err := fqdn.ParseName(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("the name %.260q %w", text, err)
	case name == fqdn.Root:
		return "", fmt.Errorf("the name %q is the root", text)
	}
	return name, nil
}

// rewrite is a rewrite of one name. Names in the domain to are mapped back to the domain from.
type rewrite struct {
	name     fqdn.Name // to look up; "": the rule makes no valid name
	from, to fqdn.Name
	below    bool // to itself is not mapped back
}

// apply returns the rewrite of a name, whose presentation format is text; nil: the rule does not match.
func (r *rewriteRule) apply(name fqdn.Name, text string) *rewrite {
	if r.pattern != nil {
		if !r.pattern.match(text) {
			return nil
		}
		to, err := parseHostName(r.text.expand(r.pattern.groups(text)))
		if err != nil {
			return &rewrite{}
		}
		return &rewrite{name: to, from: name, to: to}
	}
	below, ok := name.Within(r.name)
	if !ok || (below != "") != r.below {
		return nil
	}
	w := &rewrite{name: below + r.to, from: r.name, to: r.to, below: r.below}
	if len(w.name) > fqdn.MaxWire {
		return &rewrite{}
	}
	return w
}

// answerRewritten answers a question for a name that is rewritten.
func (s *Server) answerRewritten(ctx context.Context, q *query, n *nameRules) result {
	if n.rewrite.name == "" {
		return result{answer: failure(fromRules, dns.ExtendedErrorCodeOther, "the rewrite of this name is not a valid name")}
	}
	sub := q.subquery(n.rewrite.name, q.qtype)
	sub.aliases, sub.rewritten = q.aliases, true
	owner := q.presentationName()
	return s.answerName(ctx, sub, nil).then(func(a answer) answer { return n.mapBack(a.withRecords(), owner) })
}

// mapBack returns the answer to the rewritten name as one to the name, which is owner in the case of the client.
func (n *nameRules) mapBack(a answer, owner string) answer {
	a.authentic = false // signatures are of the other name
	a.answers, a.authority = n.mapRecords(a.answers, owner), n.mapRecords(a.authority, owner)
	a.additional = n.mapRecords(a.additional, owner)
	for _, rr := range a.authority {
		// A cache ignores an SOA record of a zone that the name is not in (RFC 2308 section 5).
		if rr.Header().Rrtype == dns.TypeSOA && !dns.IsSubDomain(rr.Header().Name, owner) {
			rr.Header().Name = owner
		}
	}
	return a
}

func (n *nameRules) mapRecords(records []dns.RR, owner string) []dns.RR {
	mapped := make([]dns.RR, len(records))
	for i, rr := range records {
		mapped[i] = dns.Copy(rr)
		n.mapName(&mapped[i].Header().Name, owner)
		if target := targetOf(mapped[i]); target != nil {
			n.mapName(target, owner)
		}
	}
	return mapped
}

// mapName replaces a name in the domain of the rewrite.
func (n *nameRules) mapName(text *string, owner string) {
	name, err := fqdn.ParseName(*text)
	if err != nil {
		return
	}
	below, ok := name.Within(n.rewrite.to)
	if !ok || n.rewrite.below && below == "" || len(below)+len(n.rewrite.from) > fqdn.MaxWire {
		return
	}
	*text = owner
	if name = below + n.rewrite.from; name != n.name {
		*text = name.String()
	}
}

// targetOf returns the name in the data of a record that CoreDNS's plugin rewrite maps; nil: there is none.
func targetOf(rr dns.RR) *string {
	switch rr := rr.(type) {
	case *dns.CNAME:
		return &rr.Target
	case *dns.DNAME:
		return &rr.Target
	case *dns.SRV:
		return &rr.Target
	case *dns.MX:
		return &rr.Mx
	case *dns.NS:
		return &rr.Ns
	case *dns.NAPTR:
		return &rr.Replacement
	case *dns.SOA:
		return &rr.Ns
	case *dns.PTR:
		return &rr.Ptr
	}
	return nil
}
