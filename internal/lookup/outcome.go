// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
)

// errNotAsked is the error of a query that was not sent.
var errNotAsked = errors.New("not asked")

// errUnknown is the error of a query that the manifests do not decide.
var errUnknown = errors.New("unknown")

// outcome is the result of a lookup and what it depends on. If every query was answered,
// the fields beside Result and forwarded are zero.
type outcome struct {
	libc.Result

	forwarded int      // questions that the cluster DNS forwarded or would have forwarded, each once
	notAsked  []string // names that were not asked for, in order
	assumed   []string // the names in notAsked that are assumed not to exist

	// open is the name of notAsked that the result depends on; "": none. If it does
	// not exist, the library sends openQueries queries in all.
	open        string
	openQueries int

	// absences are the reasons for names of the cluster that were not found, each once. There
	// are none if the lookup succeeds.
	absences []absence
}

// newOutcome determines what a lookup depends on. missing has, by query, the questions
// that were not asked; the library received NXDOMAIN for them. For a name with a search
// domain that is likely to be right. For the name that is looked up it is unknown: if
// nothing else was found, the lookup ends there.
func (c *clusterDNS) newOutcome(name string, r libc.Result, missing [][]dns.Question) outcome {
	o := outcome{Result: r, openQueries: len(r.Queries)}
	last := c.openQuery(name, r, missing)
	if last >= 0 {
		o.open = dns.Fqdn(name)
		if target := missing[last][0].Name; !c.isCandidate(r.Queries[last].Name, target) {
			o.open = target
		}
		for last+1 < len(r.Queries) && r.Queries[last+1].Name == r.Queries[last].Name {
			last++ // the query for the other family was sent with it
		}
		o.Queries, missing = r.Queries[:last+1], missing[:last+1]
	}
	if o.Error != "" {
		c.addAbsences(&o)
	}
	c.clearReplies(o.Queries, missing)
	o.forwarded = c.addNotAsked(&o, missing)
	return o
}

// addNotAsked sets the names that were not asked for, and returns the number of questions
// that the cluster DNS would have forwarded.
func (c *clusterDNS) addNotAsked(o *outcome, missing [][]dns.Question) int {
	var questions []dns.Question
	for i, list := range missing {
		for _, q := range list {
			o.notAsked = appendNew(o.notAsked, q.Name)
			if !strings.EqualFold(q.Name, o.open) {
				o.assumed = appendNew(o.assumed, q.Name)
			}
			if c.serves(o.Queries[i].Server) && !c.catalog.explain(q.Name).unknown {
				questions = appendNew(questions, q)
			}
		}
	}
	return len(questions)
}

// openQuery returns the index of the first query on whose missing answer the result
// depends, -1 if there is none: one for an alias, because an alias is an answer, or, if
// the lookup failed, one for the name itself.
func (c *clusterDNS) openQuery(name string, r libc.Result, missing [][]dns.Question) int {
	isName := func(q dns.Question) bool { return strings.EqualFold(q.Name, dns.Fqdn(name)) }
	for i, q := range r.Queries {
		switch {
		case missing[i] == nil:
		case !c.isCandidate(q.Name, missing[i][0].Name):
			return i
		case len(q.Reply.Answer) == 0 && r.Error != "" && slices.ContainsFunc(missing[i], isName):
			return i
		}
	}
	return -1
}

// isCandidate reports whether the cluster DNS tries a name for a query. Otherwise the name
// is the target of an alias.
func (c *clusterDNS) isCandidate(query, name string) bool {
	return slices.Contains(c.candidates(query), dns.CanonicalName(name))
}

// clearReplies removes the replies that the library received for queries which were not
// sent.
func (c *clusterDNS) clearReplies(queries []libc.Query, missing [][]dns.Question) {
	for i := range queries {
		q := &queries[i]
		overtaken := errors.Is(q.Err, libc.ErrOvertaken) && !c.serves(q.Server)
		if overtaken || missing[i] != nil && len(q.Reply.Answer) == 0 {
			q.Reply, q.Err, q.Took = nil, errNotAsked, 0
			isDecided := func(q dns.Question) bool { return !c.catalog.explain(q.Name).unknown }
			if c.serves(q.Server) && !slices.ContainsFunc(missing[i], isDecided) {
				q.Err = errUnknown
			}
		}
	}
}

// addAbsences adds the reasons for the names of the cluster that were not found. The result is unknown if the search has
// continued after a name that may exist.
func (c *clusterDNS) addAbsences(o *outcome) {
	for _, q := range o.Queries {
		if q.Reply == nil || !c.serves(q.Server) || q.Reply.Rcode != dns.RcodeNameError {
			continue
		}
		for _, name := range c.candidates(q.Name) {
			if a := c.catalog.explain(name); a.reason != "" {
				o.absences = appendNew(o.absences, a)
			}
		}
	}
	i := slices.IndexFunc(o.absences, func(a absence) bool { return a.unknown })
	if o.open == "" && i >= 0 {
		o.open = o.absences[i].name
	}
}

// synthetic returns the addresses in the replies that no cluster has assigned. A server of --server has assigned its addresses,
// whichever they are.
func (r *Result) synthetic() (list []netip.Addr) {
	if r.server != "" {
		return nil
	}
	for _, q := range r.Queries {
		if q.Reply == nil || !q.Reply.Authoritative {
			continue
		}
		for _, rr := range q.Reply.Answer {
			if a, ok := libc.RecordAddr(rr); ok && cluster.Synthetic(a) {
				list = appendNew(list, a)
			}
		}
	}
	return list
}
