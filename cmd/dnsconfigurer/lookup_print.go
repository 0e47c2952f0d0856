// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/libc"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/dnsserver/upstream"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// lookupPrinter writes one lookup in the formats of the command.
type lookupPrinter struct {
	question lookupQuestion
	pod      string
	policy   policy.Policy // in the place of the pod's own; "": that
	file     string        // the pod's resolv.conf
	result   played

	server   string            // that answered in the place of all; "": none did
	cluster  []netip.Addr      // otherwise: for which the manifests did
	upstream []upstream.Server // and what they ask
}

func (p lookupPrinter) text(w io.Writer) error {
	fmt.Fprintf(w, "# %s in %s looks up %s %s\n%s", p.question.library, p.pod, p.question.name, p.question.typeName(), p.file)
	fmt.Fprintf(w, "# %s\n", p.answering())
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	for i, q := range p.result.Queries {
		network := ""
		if q.TCP {
			network = " tcp"
		}
		took := fmt.Sprintf("%.1f ms", float64(q.Took.Microseconds())/1000)
		if errors.Is(q.Err, errNotAsked) {
			took = ""
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s%s\t%s\t%s\t%s\n",
			i+1, q.Name, dns.Type(q.Type), q.Server, network, outcomeOf(q), took, saidOf(q))
	}
	table.Flush() // a Builder takes everything
	for s := range strings.Lines(lines.String()) {
		fmt.Fprintln(w, strings.TrimRight(s, " \n"))
	}
	result := p.outcome()
	for _, remark := range append([]string{queries(len(p.result.Queries))}, p.remarks()...) {
		result = append(result, "# "+remark)
	}
	_, err := fmt.Fprintln(w, strings.Join(result, "\n"))
	return err
}

// outcome is what the program gets, in lines.
func (p lookupPrinter) outcome() []string {
	if open := p.result.open; open != "" {
		return []string{"not known: nobody was asked for " + open}
	}
	if e := p.result.Error; e != "" {
		return []string{string(e) + ": " + p.question.library.Text(e)}
	}
	result := texts(p.result.Addresses)
	for _, rr := range p.result.Answers {
		result = append(result, line(rr))
	}
	return result
}

// complete tells whether the program gets something, as far as is known.
func (p lookupPrinter) complete() bool { return p.result.Error == "" && p.result.open == "" }

func queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}

// answering says who answers.
func (p lookupPrinter) answering() string {
	switch {
	case p.server != "":
		return p.server + " stands for every nameserver"
	case len(p.cluster) == 0:
		return "the node has no cluster DNS"
	case len(p.upstream) > 0:
		return fmt.Sprintf("the manifests answer for %s, and %s for what is not the cluster's", listed(p.cluster), listed(p.upstream))
	}
	return "the manifests answer for " + listed(p.cluster)
}

// remarks say what a result depends on.
func (p lookupPrinter) remarks() (list []string) {
	r := &p.result
	if r.open != "" && r.ifAbsent > len(r.Queries) {
		list = append(list, fmt.Sprintf("%s if %s does not exist", queries(r.ifAbsent), r.open))
	}
	if len(r.absent) > 0 {
		list = append(list, "taken to be absent: "+strings.Join(r.absent, ", "))
	}
	var foreign []netip.Addr
	for _, q := range r.Queries {
		if errors.Is(q.Err, errNotAsked) && !slices.Contains(p.cluster, q.Server) {
			foreign = appendNew(foreign, q.Server)
		}
	}
	switch {
	case len(foreign) > 0:
		list = append(list, "not asked, as not the cluster DNS: "+listed(foreign)+"; give --server for another in their place")
	case len(r.notAsked) > 0:
		list = append(list, "not asked, as there is no upstream: give --upstream or --server")
	}
	if made := p.synthetic(); len(made) > 0 {
		list = append(list, "synthetic, as the manifests have none: "+listed(made))
	}
	return list
}

// synthetic are the addresses that stand for those which a cluster would assign. Those
// of another server are what it says.
func (p lookupPrinter) synthetic() []netip.Addr {
	if p.server != "" {
		return nil
	}
	return p.result.synthetic()
}

// listed puts values into one text.
func listed[T fmt.Stringer](values []T) string { return strings.Join(texts(values), ", ") }

func texts[T fmt.Stringer](values []T) []string {
	list := make([]string, 0, len(values))
	for _, v := range values {
		list = append(list, v.String())
	}
	return list
}

func (p lookupPrinter) json(w io.Writer) error { return json.NewEncoder(w).Encode(p.lookedUp()) }

func (p lookupPrinter) lookedUp() v1alpha1.LookupResult {
	queries := make([]v1alpha1.LookupQuery, 0, len(p.result.Queries))
	for _, q := range p.result.Queries {
		queries = append(queries, v1alpha1.LookupQuery{
			Name: q.Name, Type: dns.Type(q.Type).String(), Server: q.Server.String(),
			Rcode: outcomeOf(q), Answers: answersOf(q), Micros: q.Took.Microseconds(),
		})
	}
	return v1alpha1.LookupResult{
		Pod: p.pod, Name: p.question.name, Type: p.question.typeName(), Libc: string(p.question.library),
		Queries: queries, Addresses: texts(p.result.Addresses), QueryCount: len(queries),
		NotAsked: p.result.notAsked, Synthetic: texts(p.synthetic()),
	}
}

func (q lookupQuestion) typeName() string {
	if q.qtype == dns.TypeNone {
		return "A+AAAA"
	}
	return dns.Type(q.qtype).String()
}

// outcomeOf is the rcode of a reply, or why there is none.
func outcomeOf(q libc.Query) string {
	if q.Reply != nil {
		name := dns.RcodeToString[q.Reply.Rcode]
		if name == "" {
			name = fmt.Sprintf("RCODE%d", q.Reply.Rcode)
		}
		return name
	}
	for _, known := range []error{errNotAsked, libc.ErrTimeout, libc.ErrOvertaken, libc.ErrMalformed} {
		if errors.Is(q.Err, known) {
			return known.Error()
		}
	}
	return "unreachable"
}

// saidOf is the answer to a query without what the question says already.
func saidOf(q libc.Query) string {
	if q.Reply == nil || q.Reply.Rcode != dns.RcodeSuccess {
		return ""
	}
	if len(q.Reply.Answer) == 0 {
		return "no such record"
	}
	var said []string
	for _, rr := range q.Reply.Answer {
		data := strings.TrimPrefix(rr.String(), rr.Header().String())
		if t := rr.Header().Rrtype; t != q.Type {
			data = dns.Type(t).String() + " " + data
		}
		said = append(said, data)
	}
	return strings.Join(said, ", ")
}

func answersOf(q libc.Query) []string {
	answers := []string{}
	if q.Reply != nil {
		for _, rr := range q.Reply.Answer {
			answers = append(answers, line(rr))
		}
	}
	return answers
}

// line is a record in one line without tabs.
func line(rr dns.RR) string { return strings.ReplaceAll(rr.String(), "\t", " ") }
