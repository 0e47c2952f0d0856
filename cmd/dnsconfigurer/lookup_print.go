// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/miekg/dns"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/libc"
)

// lookupPrinter writes one lookup in the formats of the command.
type lookupPrinter struct {
	question lookupQuestion
	pod      string
	file     string // the pod's resolv.conf
	server   string // that answered in the place of all
	result   libc.Result
}

func (p lookupPrinter) text(w io.Writer) error {
	fmt.Fprintf(w, "# %s in %s looks up %s %s\n%s", p.question.library, p.pod, p.question.name, p.question.typeName(), p.file)
	fmt.Fprintf(w, "# %s stands for every nameserver\n", p.server)
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	for i, q := range p.result.Queries {
		network := ""
		if q.TCP {
			network = " tcp"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s%s\t%s\t%.1f ms\t%s\n",
			i+1, q.Name, dns.Type(q.Type), q.Server, network, outcomeOf(q), float64(q.Took.Microseconds())/1000, saidOf(q))
	}
	table.Flush() // a Builder takes everything
	for s := range strings.Lines(lines.String()) {
		fmt.Fprintln(w, strings.TrimRight(s, " \n"))
	}
	result := p.addresses()
	for _, rr := range p.result.Answers {
		result = append(result, line(rr))
	}
	if e := p.result.Error; e != "" {
		result = []string{string(e) + ": " + p.question.library.Text(e)}
	}
	count := fmt.Sprintf("%d queries", len(p.result.Queries))
	if len(p.result.Queries) == 1 {
		count = "1 query"
	}
	_, err := fmt.Fprintf(w, "%s\n# %s\n", strings.Join(result, "\n"), count)
	return err
}

func (p lookupPrinter) json(w io.Writer) error {
	queries := make([]v1alpha1.LookupQuery, 0, len(p.result.Queries))
	for _, q := range p.result.Queries {
		queries = append(queries, v1alpha1.LookupQuery{
			Name: q.Name, Type: dns.Type(q.Type).String(), Server: q.Server.String(),
			Rcode: outcomeOf(q), Answers: answersOf(q), Micros: q.Took.Microseconds(),
		})
	}
	return json.NewEncoder(w).Encode(v1alpha1.LookedUp{
		Pod: p.pod, Name: p.question.name, Type: p.question.typeName(), Libc: string(p.question.library),
		Queries: queries, Addresses: p.addresses(), QueryCount: len(queries),
	})
}

func (p lookupPrinter) addresses() []string {
	list := make([]string, 0, len(p.result.Addresses))
	for _, a := range p.result.Addresses {
		list = append(list, a.String())
	}
	return list
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
	for _, known := range []error{libc.ErrTimeout, libc.ErrOvertaken, libc.ErrMalformed} {
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
